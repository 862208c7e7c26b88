/** Something that a user of the bundle can act on; `name` says which kind. */
export class EmbedError extends Error {
  constructor(name, message, options) {
    super(message, options);
    this.name = name;
  }
}
