import { afterEach, expect, test } from "vitest";
import { withUploadSlot } from "./upload-slots.ts";

const mebibyte = 1024 * 1024;
let finish: (() => void)[] = [];
afterEach(() => {
  for (const each of finish.splice(0)) each();
});

/** Begins an upload that lasts until the test ends. @returns the status of its refusal, or null once it is admitted */
async function begin(owner: string, bytes?: number, maxBytes = 8 * mebibyte): Promise<number | null> {
  const headers = new Headers(bytes === undefined ? [] : [["content-length", String(bytes)]]);
  const request = new Request("http://localhost/", { method: "POST", body: "x", headers });
  let admit: (admitted: null) => void = () => {};
  const admitted = new Promise<null>((resolve) => {
    admit = resolve;
  });
  const done = withUploadSlot(request, { owner, requestId: "r", maxBytes }, async () => {
    admit(null);
    await new Promise<void>((resolve) => finish.push(resolve));
  });
  const refused = done.then(
    () => null,
    (thrown: Response) => {
      expect([request.bodyUsed, thrown.headers.get("retry-after")]).toEqual([false, "5"]);
      return thrown.status;
    },
  );
  return Promise.race([admitted, refused]);
}

async function endAll(): Promise<void> {
  for (const each of finish) each();
  finish = [];
  await new Promise(setImmediate);
}

test("an owner has two uploads at a time and no more, and others have their own", async () => {
  expect(await Promise.all(["ada", "ada", "ada", "bob"].map((owner) => begin(owner, 1)))).toEqual([
    null,
    null,
    429,
    null,
  ]);
  await endAll();
  expect(await begin("ada", 1)).toBeNull();
});

test("all uploads together have 64 MiB and no more, whether they declare their size or not", async () => {
  const sizes = [undefined, 8 * mebibyte, 100 * mebibyte, ...Array(4).fill(8 * mebibyte), 8 * mebibyte - 1];
  expect(await Promise.all(sizes.map((bytes, n) => begin(`p${n}`, bytes)))).toEqual(Array(8).fill(null));
  expect([await begin("eve", 2), await begin("eve", 1), await begin("mia")]).toEqual([429, null, 429]);
  await endAll();
  expect(await begin("eve")).toBeNull();
});
