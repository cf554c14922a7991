import { existsSync, globSync } from "node:fs";
import path from "node:path";
import { type Fault, withoutBlocks } from "./blocks.ts";

/** What a document may refer to: the scripts of package.json and the top-level entries of the repository. */
export type Surroundings = { scripts: string[]; topLevel: string[] };

/** Finds npm commands that package.json does not have. */
export function npmFaults(file: string, markdown: string, { scripts }: Surroundings): Fault[] {
  return eachLine(markdown).flatMap(({ text, line }) =>
    [...text.matchAll(/\bnpm (?:run ([a-z][a-z0-9:-]*)|(start|test))\b/g)]
      .map(([, named, short]) => named ?? short ?? "")
      .filter((name) => !scripts.includes(name))
      .map((name) => ({ file, line, message: `package.json has no script “${name}”` })),
  );
}

/** Finds relative links to missing files or headings. `read` returns a document's text. */
export function linkFaults(file: string, markdown: string, read: (file: string) => string): Fault[] {
  return eachLine(withoutBlocks(markdown)).flatMap(({ text, line }) =>
    [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
      if (/^[a-z]+:/.test(target)) return [];
      const [name = "", anchor] = target.split("#");
      const to = name === "" ? file : path.join(path.dirname(file), name);
      if (!existsSync(to)) return [{ file, line, message: `links to ${to}, which is not there` }];
      if (anchor === undefined || headings(read(to)).includes(anchor)) return [];
      return [{ file, line, message: `links to #${anchor}, which is no heading of ${to}` }];
    }),
  );
}

/** Finds backticked paths that do not exist in the repository. `<…>` matches anything, as `*` does. */
export function pathFaults(file: string, markdown: string, { topLevel }: Surroundings): Fault[] {
  return eachLine(withoutBlocks(markdown)).flatMap(({ text, line }) =>
    [...text.matchAll(/`([^`]+)`/g)]
      .map(([, code = ""]) => code.replace(/<[^>]*>/g, "*"))
      .filter((code) => /^[\w.@*-]+(?:\/[\w.@$*-]*)+$/.test(code) && topLevel.includes(code.split("/")[0] ?? ""))
      .filter((code) => (code.includes("*") ? globSync(code).length === 0 : !existsSync(code)))
      .map((code) => ({ file, line, message: `names ${code}, which is not there` })),
  );
}

/** Returns a document's anchors, as GitHub generates them. */
function headings(markdown: string): string[] {
  return eachLine(withoutBlocks(markdown))
    .map(({ text }) => /^#+ (.*)$/.exec(text)?.[1])
    .filter((heading) => heading !== undefined)
    .map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .trim()
        .replace(/\s/g, "-"),
    );
}

function eachLine(text: string): { text: string; line: number }[] {
  return text.split("\n").map((each, index) => ({ text: each, line: index + 1 }));
}
