import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { gatewayArea, platformArea } from "./areas.ts";
import { documentOf } from "./document.ts";

/** Returns the documents as stored in the repository, by file. */
export function openApiFiles(): { file: string; text: string }[] {
  return Object.entries({ platform: platformArea, gateway: gatewayArea }).map(([name, area]) => ({
    file: `docs/openapi/${name}.json`,
    text: `${JSON.stringify(documentOf(area), null, 2)}\n`,
  }));
}

/** Writes the documents of both APIs from the schemas that the code uses. */
export async function writeOpenApiFiles(): Promise<void> {
  for (const { file, text } of openApiFiles()) {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
    console.log(`${file}: ${text.length} characters`);
  }
}
