import { expect, test } from "vitest";
import { readDocument } from "./documents.ts";
import { readCommands, unknownCommands } from "./supabase-commands.ts";

test("readCommands reads the words and flags of each Supabase command, and ignores other commands", () => {
  const text =
    'npm ci\nnpx supabase link --project-ref "$REF"\nnpx supabase db push --linked=x --dry-run   # --what would be\nnpx supabase config diff\n';
  expect(readCommands({ file: "a.md", line: 10, language: "sh", need: "hosted", text })).toEqual([
    { line: 12, words: ["link"], flags: ["--project-ref"] },
    { line: 13, words: ["db", "push"], flags: ["--linked", "--dry-run"] },
    { line: 14, words: ["config", "diff"], flags: [] },
  ]);
});

test("the Supabase CLI has the commands that .env.example names", () => {
  const text = [...readDocument(".env.example").matchAll(/npx supabase [\w -]+/g)].join("\n");
  const commands = readCommands({ file: ".env.example", line: 0, language: "sh", text });
  expect(commands).not.toEqual([]);
  expect(unknownCommands(".env.example", commands)).toEqual([]);
});
