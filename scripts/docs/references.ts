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

/**
 * Finds backticked paths that do not exist in the repository. `<…>` matches anything, as `*` does. Only readers have
 * files of settings (`.env`).
 */
export function pathFaults(file: string, markdown: string, { topLevel }: Surroundings): Fault[] {
  return eachLine(withoutBlocks(markdown)).flatMap(({ text, line }) =>
    [...text.matchAll(/`([^`]+)`/g)]
      .map(([, code = ""]) => code.replace(/<[^>]*>/g, "*"))
      .filter((code) => /^[\w.@*-]+(?:\/[\w.@$*-]*)+$/.test(code) && topLevel.includes(code.split("/")[0] ?? ""))
      .filter((code) => !code.endsWith(".env"))
      .filter((code) => (code.includes("*") ? globSync(code).length === 0 : !existsSync(code)))
      .map((code) => ({ file, line, message: `names ${code}, which is not there` })),
  );
}

/** The repository's files outside the documents, and every word in them. */
export type Code = { files: string[]; words: ReadonlySet<string> };

/** Names in the documents that belong to other programs, or to files that only readers have. */
export const foreignNames: ReadonlySet<string> = new Set([
  ...["getX", "requireX", "bench-results/", "build/images/", "docker/", "main/index.ts"],
  ...["workerTimeoutMs"],
  ...["anthropicApiUrl", "AnthropicProvider", "OpenAIChatClient", "OpenAIChatCompletionClient", "OpenAILike"],
  ...[
    "OpenAIProvider",
    "OpenAIResponses",
    "previousResponseId",
    "conversationId",
    "ASWebAuthenticationSession",
    "AuthRetryableFetchError",
  ],
]);

/**
 * Finds backticked names that the code does not have: folders, files of code by the end of their path, SQL names with
 * their schema, and identifiers in camel case.
 */
export function nameFaults(file: string, markdown: string, { files, words }: Code): Fault[] {
  return eachLine(withoutBlocks(markdown)).flatMap(({ text, line }) =>
    [...text.matchAll(/`([^`]+)`/g)]
      .flatMap(([, code = ""]) => missingNames(code, { files, words }))
      .filter((name) => !foreignNames.has(name))
      .map((name) => ({ file, line, message: `names ${name}, which the code does not have` })),
  );
}

function missingNames(code: string, { files, words }: Code): string[] {
  if (/^[\w@-][\w.@/-]*(?:\.tsx?|\.sql|\/)$/.test(code)) {
    const endsWithCode = (file: string) => `/${file}`.endsWith(`/${code}`);
    const isInFolder = (file: string) => code.endsWith("/") && `/${file}`.includes(`/${code}`);
    const isKnown = existsSync(code) || files.some((file) => endsWithCode(file) || isInFolder(file));
    return isKnown ? [] : [code];
  }
  const [identifier] = /^(?:[a-z]+|[A-Z]\w*[a-z])[A-Z]\w*(?=(?:\(\))?$)/.exec(code) ?? [];
  if (identifier !== undefined) return words.has(identifier) ? [] : [identifier];
  return [...code.matchAll(/\b(?:ai|private|public)\.([a-z_]+)/g)]
    .filter(([, name = ""]) => !words.has(name))
    .map(([name]) => name);
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
