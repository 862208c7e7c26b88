// The same in workerd (Cloudflare Workers): files are modules there, and nothing runs beside a request.
{{imports}}
import { openInline } from "./inline.mjs";

export { EmbedError } from "./inline.mjs";

const model = {{model}};
let opened;

export async function encode(texts, options) {
  opened ??= openInline({ model, {{files}} }).catch((error) => {
    opened = undefined;
    throw error;
  });
  const embed = await opened;
  const vectors = await embed(typeof texts === "string" ? [texts] : Array.from(texts), options);
  return typeof texts === "string" ? vectors[0] : vectors;
}

export async function close() {
  opened = undefined;
}
