import { expect, test } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { readAdditions, settleAdditions, writeAddition } from "./addition-cookies.ts";
import { deviceCookieValue, newDevice, newSecret } from "./cookies.ts";
import { openAccountKeys } from "./vault.ts";

const origin = "https://app.example.com";
const { cookie } = await openAccountKeys({ SUPABASE_SECRET_KEY: "sb_secret_a" });
const device = newDevice();

const open = (header = "") => ({ jar: createCookieJar(header), origin, cookie });
const addition = () => ({ id: device.id, secret: newSecret() });
const headerOf = ({ jar }: ReturnType<typeof open>) =>
  jar
    .getAll()
    .map(({ name, value }) => `${name}=${value}`)
    .join("; ");

test("the cookie of an added account is host-only, HttpOnly, Secure on https, and has its own name", () => {
  const context = open();
  const [one, other] = [addition(), addition()];
  for (const each of [one, other]) writeAddition(context, each);
  for (const header of context.jar.setCookieHeaders()) {
    expect(header).toMatch(
      /^__Host-gh_added_[0-9a-f]{8}=[^;]+; Max-Age=34560000; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    );
  }
  expect(readAdditions(open(headerOf(context)), device)).toEqual([one.secret, other.secret]);
});

test("after an account is added, its cookie works only with earlier device secrets, and expires a minute after the first use of the new secret", () => {
  const start = open();
  const one = addition();
  writeAddition(start, one);
  const next = { id: device.id, secret: newSecret() };
  const settle = (from: ReturnType<typeof open>, options: { cookieSecret: string; merged: string[] }) => {
    const context = open(headerOf(from));
    settleAdditions(context, { device: next, ...options });
    return context;
  };
  const merged = settle(start, { cookieSecret: device.secret, merged: [one.secret] });
  expect(merged.jar.setCookieHeaders()).toEqual([
    expect.stringMatching(/^__Host-gh_added_\w+=[^;]+; Max-Age=86400; Path=\//),
  ]);
  const confirmed = settle(merged, { cookieSecret: next.secret, merged: [] });
  expect(confirmed.jar.setCookieHeaders()).toEqual([
    expect.stringMatching(/^__Host-gh_added_\w+=[^;]+; Max-Age=60; Path=\//),
  ]);
  for (const later of [merged, confirmed]) {
    expect(readAdditions(open(headerOf(later)), next)).toEqual([]);
    expect(readAdditions(open(headerOf(later)), device)).toEqual([one.secret]);
    // The browser sends its earlier device cookie again. The addition's cookie still names the new device secret.
    const back = settle(later, { cookieSecret: device.secret, merged: [one.secret] });
    expect(readAdditions(open(headerOf(back)), next)).toEqual([]);
  }
  expect(settle(confirmed, { cookieSecret: next.secret, merged: [] }).jar.setCookieHeaders()).toEqual([]);
});

test("the cookie of an added account is ignored and removed if it is another device's or lacks our signature", async () => {
  const foreign = await openAccountKeys({ SUPABASE_SECRET_KEY: "sb_secret_b" });
  const name = "__Host-gh_added_";
  const context = open(
    [
      `${name}1=${deviceCookieValue(newDevice(), cookie)}`,
      `${name}2=${deviceCookieValue(addition(), foreign.cookie)}`,
      `${name}3=x`,
      `gh_added_4=${deviceCookieValue(addition(), cookie)}`,
    ].join("; "),
  );
  expect(readAdditions(context, device)).toEqual([]);
  settleAdditions(context, { device, merged: [] });
  expect(context.jar.getAll().map((pair) => pair.name)).toEqual(["gh_added_4"]);
});

test("an added account in two cookies is read only once", () => {
  const one = addition();
  const value = deviceCookieValue(one, cookie);
  const context = open(`__Host-gh_added_1=${value}; __Host-gh_added_2=${value}`);
  expect(readAdditions(context, device)).toEqual([one.secret]);
});

test.each(["é", "a b", "\u0001", "", "[x]"])(
  "a cookie whose name ends in %j is not treated as an added account",
  (suffix) => {
    const context = open(`__Host-gh_added_${suffix}=${deviceCookieValue(addition(), cookie)}`);
    expect(readAdditions(context, device)).toEqual([]);
    settleAdditions(context, { device: null, merged: [] });
    expect(context.jar.setCookieHeaders()).toEqual([]);
  },
);
