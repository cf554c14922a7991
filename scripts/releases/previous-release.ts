import { readdir } from "node:fs/promises";
import { readManifest } from "../database/contents/releases.ts";
import { prepareCommit } from "./check-out.ts";

const migrations = "supabase/migrations";

/** The release that an operator runs before the upgrade, and the migrations of the upgrade. */
export interface PreviousRelease {
  version: string;
  /** The checkout of the release's code. */
  root: string;
  /** This checkout's migrations that the release lacks. */
  added: string[];
}

/**
 * Prepares the newest release that lacks one of this checkout's migrations, with the packages that it locks.
 * @throws Error if the release's commit is unknown or not in this clone, or its packages cannot be installed
 */
export async function preparePrevious(signal: AbortSignal): Promise<PreviousRelease> {
  const { releases } = await readManifest(".");
  const files = (await readdir(migrations)).sort();
  const lacks = (release: (typeof releases)[number]) => files.filter((file) => !(file in release.migrations));
  const release = releases.findLast((one) => lacks(one).length > 0);
  if (!release?.commit) throw new Error("The manifest has no commit of a release that lacks a migration.");
  const { root } = await prepareCommit(release.commit, signal);
  return { version: release.version, root, added: lacks(release) };
}
