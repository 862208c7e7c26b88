// Token ids of the texts on standard input, by the tokenizer of the bundle named on the command line.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { Generic, WordPiece } from "../js/tokenizer.mjs";
import { Unigram } from "../js/unigram.mjs";

const folder = pathToFileURL(`${process.argv[2]}/`);
const read = (asset) => new Uint8Array(readFileSync(new URL(asset.path, folder)));
const { tokenizer } = JSON.parse(readFileSync(new URL("bundle.json", folder), "utf8"));
const table = read(tokenizer.table);
const OWN = { wordpiece: WordPiece, unigram: Unigram };
const made =
  tokenizer.kind in OWN
    ? new OWN[tokenizer.kind](table)
    : new Generic(await import(new URL(tokenizer.code.path, folder)), JSON.parse(new TextDecoder().decode(table)));
const { texts, longest } = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => made.encode(text, longest))));
