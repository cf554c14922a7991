import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import type { Bookmarks } from "./import-daily-costs.ts";

const bookmarksSchema = z.record(z.string(), z.object({ through: z.iso.date(), charged: z.array(z.iso.date()) }));

/**
 * Keeps bookmarks in a file, which is rewritten whenever a bookmark changes.
 * @param options.scope the workspace that the bookmarks belong to
 * @throws Error if the file exists but is invalid
 */
export function fileBookmarks(path: string, { scope }: { scope: string }): Bookmarks {
  const all = readAll(path);
  return {
    read: (account) => all[`${scope} ${account}`],
    write(account, { through, charged }) {
      all[`${scope} ${account}`] = { through, charged: [...charged].toSorted() };
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(`${path}.new`, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 });
      renameSync(`${path}.new`, path);
    },
  };
}

function readAll(path: string): z.output<typeof bookmarksSchema> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return {};
  }
  try {
    return bookmarksSchema.parse(JSON.parse(text));
  } catch {
    throw new Error(`${path} does not record how far costs were imported. Move it away to start over.`);
  }
}
