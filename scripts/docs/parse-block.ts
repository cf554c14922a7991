import { spawnSync } from "node:child_process";
import { parseEnv } from "node:util";
import ts from "typescript";
import { parsePlatform } from "../../packages/cli/src/platform-file/read-file.ts";
import { splitStatements } from "../database/statements.ts";
import type { Block, Language } from "./blocks.ts";

const parsers: Record<Language, (text: string) => string | undefined | Promise<string | undefined>> = {
  sh: (text) => spoken("bash", ["-n"], text),
  ts: (text) => syntaxFault(text, "block.ts"),
  tsx: (text) => syntaxFault(text, "block.tsx"),
  js: (text) => syntaxFault(text, "block.js"),
  // Python is not parsed here, because its parser needs an installed Python. Errors show when the block is run.
  python: () => undefined,
  sql: async (text) => thrown(() => splitStatements(text)),
  json: async (text) => thrown(() => JSON.parse(text)),
  ini: settingsFault,
  yaml: platformFault,
};

/** Parses a block with its language's own grammar. @returns the error message, if the block is invalid */
export async function parseBlock({ language, text }: Block): Promise<string | undefined> {
  return parsers[language](text);
}

/** Returns what is wrong with a file that describes a platform. The guides show no other YAML. */
function platformFault(text: string): string | undefined {
  return parsePlatform(text).faults.join("; ") || undefined;
}

function spoken(command: string, args: string[], input: string): string | undefined {
  const { status, stderr, error } = spawnSync(command, args, { input, encoding: "utf8" });
  return status === 0 ? undefined : (error?.message ?? stderr.trim());
}

async function thrown(work: () => unknown): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function syntaxFault(text: string, fileName: string): string | undefined {
  const { diagnostics = [] } = ts.transpileModule(text, {
    fileName,
    reportDiagnostics: true,
    compilerOptions: {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ESNext,
      erasableSyntaxOnly: true,
      jsx: ts.JsxEmit.ReactJSX,
    },
  });
  return diagnostics.length === 0
    ? undefined
    : diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n")).join("\n");
}

/**
 * Returns which line of an `.env` file sets nothing, or that a name is set twice. Node's parser reports no errors, so
 * this function compares the lines with the parsed settings.
 */
function settingsFault(text: string): string | undefined {
  const lines = text.split("\n").filter((line) => line.trim() !== "" && !line.trim().startsWith("#"));
  const names = Object.keys(parseEnv(text));
  const lost = lines.find(
    (line) => !names.includes(line.split("=")[0]?.trim() ?? "") || !/^[A-Z_][A-Z0-9_]*=/.test(line),
  );
  if (lost !== undefined) return `“${lost}” sets nothing`;
  return names.length === lines.length ? undefined : "a name is set twice";
}
