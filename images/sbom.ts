import { globSync, readFileSync } from "node:fs";
import path from "node:path";

type Component = { type: string; name: string; version: string; purl: string };
type Bom = { components?: Component[]; [member: string]: unknown };

/**
 * Returns what an image contains as a CycloneDX document: the packages of `npm sbom`, the runtime, and the packages of
 * the base image.
 * @param root the image's file system
 */
export function readSbom(root: string, runtime: { name: string; version: string }): Bom {
  const bom = JSON.parse(readFileSync(path.join(root, "app/sbom.cdx.json"), "utf8")) as Bom;
  const { name, version } = runtime;
  const ofRuntime = { type: "application", name, version, purl: `pkg:generic/${name}@${version}` };
  return { ...bom, components: [...(bom.components ?? []), ofRuntime, ...readDebianPackages(root)] };
}

/** Reads the packages of a base image that has a file for each, as distroless images have. */
function readDebianPackages(root: string): Component[] {
  const folder = path.join(root, "var/lib/dpkg/status.d");
  return globSync("*", { cwd: folder, exclude: ["*.md5sums"] })
    .toSorted()
    .map((file) => {
      const text = readFileSync(path.join(folder, file), "utf8");
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(text)?.[1] ?? "";
      const [name, version] = [field("Package"), field("Version")];
      const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${field("Architecture")}`;
      return { type: "library", name, version, purl };
    });
}
