import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { insertAccount, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { answerStepMs } from "../session/even-answers.ts";
import { visitorHeaders } from "../testing/visitor.ts";

const { base } = readStack();
const domain = `${crypto.randomUUID().slice(0, 8)}.enumeration.gatehouse.test`;
const password = "correct horse battery";

/**
 * Samples per kind. If two kinds take equally long, the chance that the times of their samples don't overlap is about
 * one in a million.
 */
const sampleSize = 12;
const kinds = ["unknown", "known", "banned", "OAuth-only", "unconfirmed"] as const;
const paths: readonly string[] = ["/login", "/signup", "/forgot-password", "/signup/check-mail", "/login/code"];
const statuses: Record<string, number> = { "/login": 400, "/signup": 302, "/login/code": 302 };
type Kind = (typeof kinds)[number];

/**
 * Gives each path its own email addresses. Otherwise, a request to one path could change an account, and thereby the
 * answers of another path.
 */
const emailOf = (kind: Kind, { path, index }: { path: string; index: number }) =>
  `${kind.toLowerCase()}-${index}-${paths.indexOf(path)}@${domain}`;

/**
 * SQL that turns a confirmed account into an account of another kind. Accounts created through a provider have no
 * password.
 */
const changes: Partial<Record<Kind, string>> = {
  banned: "banned_until = now() + interval '24 hours'",
  "OAuth-only": "encrypted_password = ''",
  unconfirmed: "email_confirmed_at = null, raw_user_meta_data = '{}'",
};

beforeAll(async () => {
  await Promise.all(
    kinds.map(async (kind) => {
      if (kind === "unknown") return;
      for (const path of paths) {
        for (let index = 0; index < sampleSize; index += 1) {
          await insertAccount({ email: emailOf(kind, { path, index }), password });
        }
      }
      if (!changes[kind]) return;
      await query(`update auth.users set ${changes[kind]} where email like $1`, [`${kind.toLowerCase()}-%@${domain}`]);
    }),
  );
}, 60_000);
afterAll(() => query("delete from auth.users where email like $1", [`%@${domain}`]));

/**
 * Returns what a browser sees of a response, and how long the response took. Removes the email and the values that
 * change with each request.
 */
async function answerTo(path: string, email: string) {
  const began = performance.now();
  const response = await fetch(`${base}${path}`, {
    method: "POST",
    headers: { ...visitorHeaders(), accept: "text/html" },
    body: new URLSearchParams({ email, password: "not the password" }),
    redirect: "manual",
  });
  const page = await response.text();
  const milliseconds = performance.now() - began;
  const nonce = /nonce-([^']+)/.exec(response.headers.get("content-security-policy") ?? "")?.[1];
  const changing = [response.headers.get("x-request-id"), nonce, email].filter((value) => typeof value === "string");
  const plain = changing.reduce((text, value) => text.replaceAll(value, ""), page);
  const seen = {
    status: response.status,
    location: response.headers.get("location"),
    cookies: response.headers.getSetCookie().map((cookie) => cookie.replace(/=[^;]*/, "")),
    headers: [...response.headers.keys()].sort(),
    page: plain,
  };
  return { seen, milliseconds };
}

describe.concurrent.each(paths)("responses of %s to known and unknown email addresses", (path) => {
  test("answers requests for all kinds of email addresses identically and in the same time", {
    timeout: 90_000,
  }, async () => {
    const answers = await Promise.all(
      kinds.map(async (kind) => {
        const ofKind: Awaited<ReturnType<typeof answerTo>>[] = [];
        for (let index = 0; index < sampleSize; index += 1) {
          ofKind.push(await answerTo(path, emailOf(kind, { path, index })));
        }
        return { kind, seen: ofKind.map(({ seen }) => seen), times: ofKind.map(({ milliseconds }) => milliseconds) };
      }),
    );
    const [unknown, ...others] = answers;
    if (!unknown) throw new Error("nothing was asked");
    expect(unknown.seen[0]?.status).toBe(statuses[path] ?? 200);
    for (const { kind, seen, times } of [unknown, ...others]) {
      for (const answer of seen) expect(answer, kind).toEqual(unknown.seen[0]);
      expect(Math.min(...times), kind).toBeGreaterThanOrEqual(answerStepMs - 1);
      expect(Math.min(...times), kind).toBeLessThanOrEqual(Math.max(...unknown.times));
      expect(Math.min(...unknown.times), kind).toBeLessThanOrEqual(Math.max(...times));
    }
  });
});

test.concurrent.each(["/forgot-password", "/signup/check-mail", "/signup", "/login/code"])(
  "answers a second request to %s identically for known and unknown addresses, even if the first request sent an email",
  async (path) => {
    const twice = async (kind: Kind) => {
      const email = emailOf(kind, { path, index: path.length % sampleSize });
      return [(await answerTo(path, email)).seen, (await answerTo(path, email)).seen];
    };
    const [unknown, known, unconfirmed] = await Promise.all([twice("unknown"), twice("known"), twice("unconfirmed")]);
    expect(known).toEqual(unknown);
    expect(unconfirmed).toEqual(unknown);
  },
);
