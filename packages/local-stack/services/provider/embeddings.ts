import { createHash } from "node:crypto";
import { z } from "zod";
import { countTokens } from "./usage.ts";

const defaultDimensions = 256;

/** The body of `POST /v1/embeddings`. */
export const embeddingsRequest = z.looseObject({
  model: z.string(),
  input: z.union([
    z.string().min(1),
    z.array(z.string().min(1)).min(1).max(2_048),
    z.array(z.number()).min(1),
    z.array(z.array(z.number()).min(1)).min(1).max(2_048),
  ]),
  dimensions: z.number().int().min(1).max(3_072).nullish(),
  encoding_format: z.enum(["float", "base64"]).nullish(),
});

type Input = string | number[];

/** Returns a unit vector for each text or list of tokens. The same text always gets the same vector. */
export function embed({ model, input, dimensions, encoding_format: format }: z.infer<typeof embeddingsRequest>) {
  const inputs = listOf(input);
  const tokens = inputs.reduce((sum, each) => sum + (typeof each === "string" ? countTokens(each) : each.length), 0);
  const data = inputs.map((each, index) => {
    const vector = unitVector(String(each), dimensions ?? defaultDimensions);
    const embedding = format === "base64" ? Buffer.from(vector.buffer).toString("base64") : [...vector];
    return { object: "embedding", index, embedding };
  });
  return { object: "list", model, data, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

function listOf(input: z.infer<typeof embeddingsRequest>["input"]): Input[] {
  if (typeof input === "string") return [input];
  return input.every((each) => typeof each === "number") ? [input] : input;
}

function unitVector(text: string, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions);
  for (let at = 0; at < dimensions; at += 8) {
    const block = createHash("sha256").update(`${at}:${text}`).digest();
    for (let i = 0; i < 8 && at + i < dimensions; i++) vector[at + i] = block.readInt32LE(4 * i) / 2 ** 31;
  }
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}
