import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { placeCluster } from "./placement.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "gatehouse-placement-"));
  await chmod(directory, 0o755);
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

const place = (folder?: string) => placeCluster(path.join(directory, "data"), folder);

describe.skipIf(process.platform === "win32")("A folder with custom Postgres programs", () => {
  const write = async (name: string, version: string) => {
    const file = path.join(directory, name);
    await writeFile(file, `#!/bin/sh\necho "${name} (PostgreSQL) ${version}"\n`, { mode: 0o755 });
    return file;
  };

  test("uses a folder with custom Postgres programs instead of the package", async () => {
    const [initdb, postgres] = [
      await write("initdb", "17.11 (Debian 17.11-0+deb13u1)"),
      await write("postgres", "17.11"),
    ];
    expect(await place(directory)).toMatchObject({ initdb, postgres });
    expect((await place()).postgres).not.toBe(postgres);
  });

  test("refuses a folder whose Postgres programs are missing or have another version", async () => {
    await expect(place(directory)).rejects.toThrow(/initdb cannot be run .*\n.* POSTGRES_BIN/);
    await write("initdb", "17.11");
    await write("postgres", "16.4");
    await expect(place(directory)).rejects.toThrow(/postgres is of Postgres 16, and the stack runs Postgres 17/);
  });
});
