import { gatewayArea, platformArea } from "./areas.ts";
import { documentOf } from "./document.ts";

/** Returns the documents as stored in the repository, by file. */
export function openApiFiles(): { file: string; text: string }[] {
  return Object.entries({ platform: platformArea, gateway: gatewayArea }).map(([name, area]) => ({
    file: `docs/openapi/${name}.json`,
    text: `${JSON.stringify(documentOf(area), null, 2)}\n`,
  }));
}
