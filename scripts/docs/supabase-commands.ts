import { spawnSync } from "node:child_process";
import type { Block, Fault } from "./blocks.ts";

/** A Supabase CLI command in a block. */
export type SupabaseCommand = { line: number; words: string[]; flags: string[] };

/** Reads a block's Supabase CLI commands: the words that name each command, and its flags. */
export function readCommands({ line, text }: Block): SupabaseCommand[] {
  return text.split("\n").flatMap((each, index) => {
    const said = /^\s*npx supabase (.*)$/.exec(each.replace(/\s#.*$/, ""))?.[1];
    if (said === undefined) return [];
    const parts = said.trim().split(/\s+/);
    const firstFlag = parts.findIndex((part) => part.startsWith("-"));
    return [
      {
        line: line + 1 + index,
        words: firstFlag < 0 ? parts : parts.slice(0, firstFlag),
        flags: parts.filter((part) => part.startsWith("--")).map((flag) => flag.split("=")[0] ?? flag),
      },
    ];
  });
}

/**
 * Finds commands and flags that this checkout's version of the CLI lacks, according to its own help. Needs no project.
 */
export function unknownCommands(file: string, commands: readonly SupabaseCommand[]): Fault[] {
  return commands.flatMap(({ line, words, flags }) => {
    const name = `supabase ${words.join(" ")}`;
    const help = helpOf(words);
    if (!help.includes(`  ${name}`)) return [{ file, line, message: `there is no command “${name}”` }];
    return flags
      .filter((flag) => !help.split(/[^\w-]+/).includes(flag))
      .map((flag) => ({ file, line, message: `“${name}” has no flag ${flag}` }));
  });
}

/** Returns the help of a command. For an unknown command, the CLI prints the help of its parent. */
function helpOf(words: readonly string[]): string {
  const env = { ...process.env, SUPABASE_TELEMETRY_DISABLED: "1" };
  return spawnSync("supabase", [...words, "--help"], { encoding: "utf8", env }).stdout;
}
