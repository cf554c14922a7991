import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { type CommandLinePhone, openCommandLinePhone } from "../test/command-line-phone.ts";
import { createPerson, deletePerson, insertAuthenticators, type Person } from "../test/people.ts";
import { readStack } from "../test/stack.ts";

const stack = readStack();
const { workspaceId } = stack;
// The demo user's workspace has credits.
const demo = stack.users.find(({ role }) => role === "user");
let phone: CommandLinePhone;

beforeEach(() => {
  phone = openCommandLinePhone();
});
afterEach(() => phone.close());

const enter = ({ email, password }: { email: string; password: string }, ...more: string[]) =>
  phone.run(["sign-in", email, ...more], { MOBILE_PASSWORD: password });

describe("the command-line mobile app after a password sign-in", () => {
  beforeEach(async () => {
    expect(await enter(demo ?? { email: "", password: "" })).toMatchObject({ code: 0 });
  });

  test("a command-line phone keeps its session in a file that only its owner can read, and can sign out", async () => {
    expect((statSync(phone.sessionFile).mode & 0o777).toString(8)).toBe("600");
    expect((await phone.run(["whoami"])).out).toContain(demo?.email);
    expect(await phone.run(["sign-out"])).toMatchObject({ code: 0, out: "Signed out." });
    expect(existsSync(phone.sessionFile)).toBe(false);
    expect(await phone.run(["whoami"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("No account is signed in"),
    });
  });

  test("a command-line phone can list models, chat and convert text to speech in its user's workspace", async () => {
    const [models, chat, speech] = await Promise.all([
      phone.run(["models", "--workspace", workspaceId]),
      phone.run(["chat", "Good", "morning", "--workspace", workspaceId]),
      phone.run([
        "speak",
        "Good morning",
        "--workspace",
        workspaceId,
        "--file",
        path.join(path.dirname(phone.sessionFile), "said.wav"),
      ]),
    ]);
    expect(models.out).toMatch(/^demo-chat\tchat\t/m);
    expect(chat).toMatchObject({ code: 0, out: expect.stringContaining("Good morning") });
    expect(speech).toMatchObject({ code: 0 });
    const wav = readFileSync(path.join(path.dirname(phone.sessionFile), "said.wav"));
    expect([wav.toString("latin1", 0, 4), wav.toString("latin1", 8, 12)]).toEqual(["RIFF", "WAVE"]);
  });

  test("explains why another user's workspace and an unknown model are refused", async () => {
    const foreign = await phone.run(["chat", "Hi", "--workspace", crypto.randomUUID()]);
    expect([foreign.code, foreign.err]).toEqual([1, expect.stringMatching(/\(\w+, request /)]);
    const unknown = await phone.run(["chat", "Hi", "--model", "none", "--workspace", workspaceId]);
    expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining("model_not_found")]);
  });
});

describe("the command-line mobile app for an account with an authenticator", () => {
  let person: Person;
  let secret: string;
  beforeEach(async () => {
    person = await createPerson();
    const [app] = await insertAuthenticators(person, ["App"]);
    secret = app?.secret ?? "";
  });
  afterEach(() => deletePerson(person));

  test("the command-line mobile app is refused with MFA_REQUIRED until the user has entered an authenticator code", async () => {
    expect(await enter(person)).toMatchObject({ code: 0, err: expect.stringContaining("--code") });
    const refused = await Promise.all(
      [["mfa", "list"], ["models"], ["models", "--workspace", workspaceId]].map((argv) => phone.run(argv)),
    );
    for (const { code, err } of refused) expect([code, err]).toEqual([1, expect.stringContaining("MFA_REQUIRED")]);
    expect((await phone.run(["whoami"])).out).toContain("The second step is due");
    expect((await enter(person, "--code", codeOf({ secret }, 1))).out).toContain("second step done");
    expect((await phone.run(["mfa", "list"])).out).toBe("Nothing waits for you.");
  });

  test("a command-line phone reports a wrong authenticator code", async () => {
    const { code, err } = await enter(person, "--code", "000000");
    expect([code, err]).toEqual([1, expect.stringContaining("The code was refused")]);
  });
});

test("refuses a QR code of another origin before sending anything, even if the phone is not signed in", async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const evil = `http://127.0.0.1:${port}`;
    for (const verb of ["show", "approve", "reject"]) {
      const { code, err } = await phone.run(["qr", verb, `${evil}/qr/open#${crypto.randomUUID()}.secret`]);
      expect([code, err]).toEqual([
        1,
        expect.stringContaining(`This QR code is from ${evil}. Only codes from ${stack.base}`),
      ]);
    }
    expect(asked).toEqual([]);
    const own = await phone.run(["qr", "approve", `${stack.base}/qr/open#${crypto.randomUUID()}.secret`]);
    expect(own.err).toContain("No account is signed in");
  } finally {
    server.close();
  }
});

test.each([
  ["a wrong password", ["sign-in", "unknown@example.test"], "sign-in was refused"],
  ["an unknown command", ["dance"], "no such command"],
])("the command-line mobile app explains %s and exits with 1", async (_, argv, words) => {
  const { code, err } = await phone.run(argv, { MOBILE_PASSWORD: "wrong" });
  expect([code, err]).toEqual([1, expect.stringContaining(words)]);
});

test("the command-line phone shows its help on request", async () => {
  expect(await phone.run(["--help"])).toMatchObject({
    code: 0,
    out: expect.stringContaining("npm run gatehouse -- mobile "),
  });
});
