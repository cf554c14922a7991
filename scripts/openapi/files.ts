import { gatewayArea, platformArea } from "./areas.ts";
import { documentOf } from "./document.ts";

/** The documents as they are kept in the repository, by their files. */
export function openApiFiles(): { file: string; text: string }[] {
  return Object.entries({ platform: platformArea, gateway: gatewayArea }).map(([name, area]) => ({
    file: `docs/openapi/${name}.json`,
    text: `${JSON.stringify(documentOf(area), null, 2)}\n`,
  }));
}
