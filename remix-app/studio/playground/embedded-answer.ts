import type { Embedded } from "./form-answer.ts";
import { factsOfPlatform, parseAnswer } from "./run-facts.ts";

/** Reads an answer with embeddings. @throws Error if the text is not such an answer */
export function readEmbedded(text: string, texts: string[]): Embedded {
  const { data, platform } = parseAnswer(text);
  const vectors = data.map(({ embedding }: { embedding: number[] }) => embedding);
  if (vectors.length !== texts.length || !vectors.every(Array.isArray)) throw new Error("no embeddings");
  return { texts, vectors, facts: factsOfPlatform(platform) };
}

/** Returns the similarity of two texts' vectors, from -1 to 1. */
export function cosine(one: readonly number[], other: readonly number[]): number {
  let product = 0;
  let oneSquared = 0;
  let otherSquared = 0;
  for (const [index, value] of one.entries()) {
    const against = other[index] ?? 0;
    product += value * against;
    oneSquared += value * value;
    otherSquared += against * against;
  }
  return product / Math.sqrt(oneSquared * otherSquared);
}
