import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";

export const containerfile = path.join(import.meta.dirname, "Containerfile");

const base = /^ARG (BUILD_BASE|BASE)=([^@\s]+)(@sha256:[0-9a-f]{64})?$/gm;

/** A base image as the Containerfile names it: a reference with a tag, and its digest if it is pinned. */
export type Base = { argument: string; reference: string; digest?: string };

/** Returns the base images that a Containerfile names. */
export function readBases(text: string): Base[] {
  return [...text.matchAll(base)].map(([, argument = "", reference = "", digest]) => ({
    argument,
    reference,
    ...(digest ? { digest: digest.slice(1) } : {}),
  }));
}

/** Returns the Containerfile with digests after the references of its base images. */
export function pinBases(text: string, digests: ReadonlyMap<string, string>): string {
  return text.replaceAll(base, (line, argument: string, reference: string) => {
    const digest = digests.get(reference);
    return digest ? `ARG ${argument}=${reference}@${digest}` : line;
  });
}

/**
 * Reads the current digest of every base image, and writes them into the Containerfile.
 * @throws StackError if one of them can't be read; then nothing is written
 */
export async function pinContainerfile(readDigest: (reference: string) => Promise<string>): Promise<string[]> {
  const text = await readFile(containerfile, "utf8");
  const references = readBases(text).map(({ reference }) => reference);
  const read = await Promise.all(
    references.map(async (reference) => [reference, await readDigest(reference)] as const),
  );
  await writeFile(containerfile, pinBases(text, new Map(read)));
  return read.map(([reference, digest]) => `${reference} ${digest}`);
}
