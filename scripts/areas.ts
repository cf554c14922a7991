import { globSync, readFileSync } from "node:fs";
import path from "node:path";

/** An import of one file by another. `isType` is true if only types are imported. */
export type Import = { from: string; to: string; isType: boolean };
/** The areas of a tree, each with the areas that it may use. */
export type Arrows = ReadonlyMap<string, readonly string[]>;

/**
 * Reads the areas and what each may use from a table in docs/architecture.md. `all` means every other area.
 * @param heading the beginning of the section's heading
 */
export function readArrows(document: string, heading: string): Arrows {
  const section = document.split("\n## ").find((text) => text.startsWith(heading)) ?? "";
  const rows = [...section.matchAll(/^\| `([\w-]+)` \|.*\| ?(.*?) ?\|$/gm)];
  const areas = rows.map(([, area = ""]) => area);
  return new Map(
    rows.map(([, area = "", may = ""]) => [
      area,
      may === "all"
        ? areas.filter((each) => each !== area)
        : [...may.matchAll(/`([\w-]+)`/g)].map(([, name = ""]) => name),
    ]),
  );
}

/** Returns a file's area, which is its folder in the tree, or undefined if the file is outside these folders. */
export function areaOf(file: string, root: string): string | undefined {
  const [area, ...rest] = file.startsWith(root) ? file.slice(root.length).split("/") : [];
  return rest.length > 0 ? area : undefined;
}

/** Returns the uses that are missing from the table. Files outside the areas may use everything. */
export function violations<Use extends { from: string; to: string }>(
  uses: readonly Use[],
  { arrows, root }: { arrows: Arrows; root: string },
): string[] {
  const wrong = uses.filter(({ from, to }) => {
    const [source, target] = [areaOf(from, root), areaOf(to, root)];
    if (source === undefined || source === target) return false;
    return target === undefined || !arrows.get(source)?.includes(target);
  });
  return wrong.map(({ from, to }) => `${from} uses ${to}`);
}

/** Returns the nodes in cycles, and those between cycles: what remains after repeatedly removing the loose ends. */
export function cycles(arrows: Arrows): string[] {
  let left = [...arrows];
  for (;;) {
    const names = new Set(left.map(([name]) => name));
    const used = new Set(left.flatMap(([, targets]) => targets));
    const rest = left.filter(([name, targets]) => used.has(name) && targets.some((target) => names.has(target)));
    if (rest.length === left.length) return rest.map(([name]) => name);
    left = rest;
  }
}

/** Returns the pairs as arrows, one entry for each source. */
export function arrowsOf(pairs: readonly { from: string; to: string }[]): Arrows {
  const targets = new Map<string, string[]>();
  for (const { from, to } of pairs) targets.set(from, [...(targets.get(from) ?? []), to]);
  return targets;
}

/** Returns the source files of a tree without its tests. */
export function sourceFiles(root: string): string[] {
  const isTest = (file: string) => /\.(test|spec)\.tsx?$|^remix-app\/testing\//.test(file);
  return globSync(`${root}**/*.{ts,tsx}`)
    .map((file) => file.split(path.sep).join("/"))
    .filter((file) => !isTest(file));
}

/** Returns the imports between the files of a tree, of types and of values, static and dynamic. */
export function importsOf(files: readonly string[]): Import[] {
  const known = new Set(files);
  return files
    .flatMap((from) =>
      [
        ...readFileSync(from, "utf8").matchAll(/(?:^(?:im|ex)port( type)? [^";]*?from |\bimport ?\(?)"(\.[^"]+)"/gm),
      ].map(([, type, name = ""]) => ({ from, to: path.join(path.dirname(from), name), isType: type !== undefined })),
    )
    .filter(({ to }) => known.has(to));
}
