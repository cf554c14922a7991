import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { openApiFiles } from "./files.ts";

/** `npm run generate`: writes the OpenAPI documents of both APIs from the schemas that the code uses. */
for (const { file, text } of openApiFiles()) {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, text);
  console.log(`${file}: ${text.length} characters`);
}
