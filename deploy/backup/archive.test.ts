import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { formatHeader, parseHeader, readArchive, writeArchive } from "./archive.ts";

const createdAt = new Date("2026-01-30T12:00:00Z");
const dumped = Buffer.from("the rows ".repeat(100));
const manifest = '{ "format": 1 }\n';
let folder: string;
let file: string;

async function* chunks() {
  yield dumped.subarray(0, 300);
  yield dumped.subarray(300);
}

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "gatehouse-archive-"));
  file = path.join(folder, "whole.tar");
  await writeArchive(file, { dump: chunks(), describe: async () => manifest, createdAt });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("an archive returns its manifest and the position of its dump, and only its owner can read it", async () => {
  const { manifest: text, dump } = await readArchive(file);
  expect(text).toBe(manifest);
  expect(readFileSync(file).subarray(dump.start, dump.end)).toEqual(dumped);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("a backup that %s ends leaves no file", async (name) => {
  const ended = path.join(folder, `${name}.tar`);
  const program = `
    import { writeArchive } from ${JSON.stringify(new URL("archive.ts", import.meta.url))};
    setInterval(() => {}, 1_000);
    async function* dump() {
      yield Buffer.from("rows");
      console.log("writing");
      await new Promise(() => {});
    }
    await writeArchive(${JSON.stringify(ended)}, { dump: dump(), describe: async () => "", createdAt: new Date() });`;
  const child = spawn(process.execPath, ["--input-type=module-typescript", "--eval", program], { cwd: process.cwd() });
  const closed = once(child, "close");
  await once(child.stdout, "data");
  expect(readdirSync(folder)).toContain(`${name}.tar.partial`);
  child.kill(name);
  expect(await closed).toEqual([null, name]);
  expect(readdirSync(folder).filter((file) => file.startsWith(name))).toEqual([]);
});

test("tar and sha256sum read an archive", () => {
  execFileSync("tar", ["-xf", file], { cwd: folder });
  expect(readFileSync(path.join(folder, "database.dump"))).toEqual(dumped);
  const sums = readFileSync(path.join(folder, "SHA256SUMS"), "utf8");
  const hash = (data: string | Buffer) => createHash("sha256").update(data).digest("hex");
  expect(sums).toBe(`${hash(dumped)}  database.dump\n${hash(manifest)}  manifest.json\n`);
});

describe("a damaged archive is refused", () => {
  const damage = path.join(tmpdir(), `gatehouse-damaged-${process.pid}.tar`);
  afterAll(() => rmSync(damage, { force: true }));
  const fault = async (content: Buffer) => {
    writeFileSync(damage, content);
    return readArchive(damage).then(
      () => "accepted",
      (error: Error) => (error.message.includes("Nothing was changed.") ? "refused" : error.message),
    );
  };

  test("with a byte changed anywhere", async () => {
    const whole = readFileSync(file);
    const accepted: number[] = [];
    for (let at = 0; at < whole.length; at += 37) {
      const changed = Buffer.from(whole);
      changed.writeUInt8((changed[at] ?? 0) ^ 0x01, at);
      if ((await fault(changed)) !== "refused") accepted.push(at);
    }
    expect(accepted).toEqual([]);
  });

  test.each([0, 1, 511, 512, 700, 1536, 2048, 3000, 4096])("cut off after %d bytes", async (length) => {
    expect(await fault(readFileSync(file).subarray(0, length))).toBe("refused");
  });

  test("cut off by one byte, or with one more", async () => {
    const whole = readFileSync(file);
    expect(await fault(whole.subarray(0, -1))).toBe("refused");
    expect(await fault(Buffer.concat([whole, Buffer.alloc(1)]))).toBe("refused");
  });

  test("without its manifest", async () => {
    const whole = readFileSync(file);
    expect(await fault(Buffer.concat([whole.subarray(0, 1536), whole.subarray(2560)]))).toBe("refused");
  });
});

test("a file that does not exist is refused", async () => {
  await expect(readArchive(path.join(folder, "none.tar"))).rejects.toThrow("none.tar cannot be read (ENOENT)");
});

test("a dump that fails leaves no file", async () => {
  const failing = path.join(folder, "failing.tar");
  const describe = async () => {
    throw new Error("pg_dump failed");
  };
  await expect(writeArchive(failing, { dump: chunks(), describe, createdAt })).rejects.toThrow("pg_dump failed");
  expect(readdirSync(folder).filter((name) => name.startsWith("failing"))).toEqual([]);
});

test("an existing file is kept", async () => {
  const write = () => writeArchive(file, { dump: chunks(), describe: async () => "{}", createdAt });
  await expect(write()).rejects.toThrow("whole.tar exists. Name another file, or move it.");
  expect((await readArchive(file)).manifest).toBe(manifest);
});

test("a file that another backup is writing is kept", async () => {
  const busy = path.join(folder, "busy.tar");
  writeFileSync(`${busy}.partial`, "in progress");
  const write = () => writeArchive(busy, { dump: chunks(), describe: async () => "{}", createdAt });
  await expect(write()).rejects.toThrow("another backup writes it, or one was killed");
  expect(readFileSync(`${busy}.partial`, "utf8")).toBe("in progress");
});

test.each([0, 8 ** 11 - 1, 8 ** 11, 2 ** 50])("a header keeps a size of %d bytes", (size) => {
  expect(parseHeader(formatHeader({ name: "database.dump", size, modifiedAt: createdAt }), "database.dump")).toBe(size);
});
