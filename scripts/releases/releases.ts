import { readFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";

const schema = z.object({
  releases: z.array(
    z.object({
      version: z.string(),
      commit: z
        .string()
        .regex(/^[0-9a-f]{40}$/)
        .nullable(),
      migrations: z.record(z.string(), z.string()),
    }),
  ),
});

/** A release as the manifest records it: its commit, and its migration files with their hashes. */
export type Release = z.infer<typeof schema>["releases"][number];

/** The releases up to this checkout's, oldest first. */
export async function readReleases(root: string): Promise<Release[]> {
  return schema.parse(JSON.parse(await readFile(path.join(root, "supabase/releases/manifest.json"), "utf8"))).releases;
}
