import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { AppLoadContext } from "@remix-run/node";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findPasswordFault, isEasyToGuess } from "./password-fault.ts";

const product = "Gatehouse";
const person = { email: "ada.lovelace@example.com", name: "Ada Lovelace" };

describe("a password that is easy to guess", () => {
  test.each([
    "12345678",
    "password",
    "PassWord",
    "        ",
    "aaaaaaaaaa",
    "qwertyuiop",
    "Gatehouse",
    "gatehouse2026!",
    "gatehousegatehouse",
    "ada.lovelace@example.com",
    "Ada.Lovelace",
    "adalovelace99",
    "lovelace1815",
    "LovelaceAda",
    "gatehouse-lovelace1",
    "example2026",
    "Password123!",
    "12345678!",
    "1-2-3-4-5-6-7-8",
    "ｐａｓｓｗｏｒｄ",
  ])("the password %j is easy to guess", (password) => {
    expect(isEasyToGuess({ ...person, password }, { product })).toBe(true);
  });

  test.each([
    "correct horse battery staple",
    "lovelace wrote the first program",
    "7391-8264-0157",
    "gatekeeper of the north",
    "adamantium-otter",
    "lovelace-otter-88",
  ])("the password %j is not easy to guess", (password) => {
    expect(isEasyToGuess({ ...person, password }, { product })).toBe(false);
  });

  test.each([
    ["90210777@ex.com", "90210777"],
    ["0176-5551234@ex.com", "01765551234"],
    ["12345@q.io", "12345@q.io"],
    ["j.smith@ex.com", "smith.j88"],
  ])("for the email %s, the password %j is easy to guess", (email, password) => {
    expect(isEasyToGuess({ email, password }, { product })).toBe(true);
  });

  test("a short name inside a longer password does not make the password easy to guess", () => {
    expect(isEasyToGuess({ email: "al@example.com", name: "Al", password: "alalalal7x" }, { product })).toBe(false);
  });

  test("a password can be checked without an email or a name", () => {
    expect(isEasyToGuess({ email: null, password: "purple-mango-88" }, { product })).toBe(false);
  });
});

describe("a breached password", () => {
  const stolen = "purple-mango-88";
  const padded = "green-mango-88";
  const hashOf = (password: string) => createHash("sha1").update(password).digest("hex").toUpperCase();
  const asked: { path: string; padding: string | undefined }[] = [];
  let url = "";
  let status = 200;
  // Returns lines in the format of https://haveibeenpwned.com/API/v3#SearchingPwnedPasswordsByRange: suffix, colon,
  // count, CRLF. A padding line has a count of 0.
  const server = createServer((request, response) => {
    asked.push({ path: request.url ?? "", padding: request.headers["add-padding"] as string | undefined });
    const lines = [`${"0".repeat(34)}1:3`, `${hashOf(stolen).slice(5)}:42`, `${hashOf(padded).slice(5)}:0`];
    response.writeHead(status, { "content-type": "text/plain" }).end(lines.join("\r\n"));
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  const fault = (password: string, at: string | undefined = url) =>
    findPasswordFault({ env: { BREACHED_PASSWORDS_URL: at, BRAND_NAME: product }, requestId: "r" } as AppLoadContext, {
      ...person,
      password,
    });

  test("a breached password is rejected, and only the first five digits of its hash leave the server", async () => {
    expect(await fault(stolen)).toContain("stolen passwords");
    expect(asked).toEqual([{ path: `/range/${hashOf(stolen).slice(0, 5)}`, padding: "true" }]);
  });

  test("a padding entry does not count as a breached password", async () => {
    expect(await fault(padded)).toBe(null);
  });

  test.each([
    ["returns an error", () => url, 503],
    ["cannot be reached", () => "http://127.0.0.1:1", 200],
  ])("a breached password is accepted, and the failed check is logged, if the list %s", async (_, at, answered) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    status = answered;
    expect(await fault(stolen, at())).toBe(null);
    expect(logged.mock.calls.flat().join()).toContain("was not checked against stolen ones");
    logged.mockRestore();
    status = 200;
  });

  test("a breached password is not looked up if the check is turned off", async () => {
    asked.length = 0;
    const off = { env: { BRAND_NAME: product }, requestId: "r" } as AppLoadContext;
    expect(await findPasswordFault(off, { ...person, password: stolen })).toBe(null);
    expect(asked).toEqual([]);
  });
});
