import path from "node:path";
import { pinContainerfile } from "./bases.ts";
import { buildImages } from "./build.ts";
import { readDigest } from "./registry.ts";

/**
 * Builds both images, and prints what they are called.
 * @param options.pin first writes the digests that the base images have now into the Containerfile
 */
export async function releaseImages(version: string, { pin = false }: { pin?: boolean | undefined }): Promise<void> {
  if (pin) for (const line of await pinContainerfile(readDigest)) console.log(`Pinned ${line}`);
  for (const { reference, sizeBytes, sbom } of await buildImages(version)) {
    const contents = path.relative(process.cwd(), sbom);
    console.log(`${reference}: ${Math.round(sizeBytes / 1_000_000)} MB unpacked, contents in ${contents}`);
  }
}
