import { accessTokenOf } from "../../../remix-app/testing/browser.ts";
import type { Person } from "../../test/people.ts";
import { NoAnswer } from "../journal.ts";
import type { Random } from "../random.ts";
import type { Actor, Stage } from "./actor.ts";
import { addressFrom, openWatchedBrowser, type PageAnswer, type WatchedBrowser } from "./watched-browser.ts";

/**
 * What a household knows about an account in its browser. `held`: signed in and not signed out since. `out`: signed
 * out, or never signed in. `doubtful`: a sign-in or sign-out got no answer, so the account may be signed in or out.
 */
export type Standing = "held" | "out" | "doubtful";

/** A session that ended with a confirmed sign-out. */
export type EndedSession = {
  actor: string;
  sessionId: string;
  userId: string;
  accessToken: string | null;
  endedAt: number;
};

export interface Household extends Actor {
  browser: WatchedBrowser;
  people: readonly Person[];
  standings: ReadonlyMap<string, Standing>;
  sessionIds: ReadonlyMap<string, string>;
  ended: readonly EndedSession[];
  /**
   * Asks the server whether accounts with the standing `doubtful` are signed in. @returns false if the server does not
   * answer now
   */
  reconcile(): Promise<boolean>;
  /** The browser's active account. Null if the browser has none, or if the active account is uncertain. */
  active(): string | null;
}

const accounts = "/api/v1/auth/accounts";
const listed = (text: string) =>
  (JSON.parse(text) as { accounts: { id: string; active: boolean; requiresReauth: boolean }[] }).accounts;

/**
 * Creates a browser that several people share: they sign in (sometimes with wrong passwords), read pages, switch and
 * sign out.
 */
export function createHousehold(
  stage: Stage,
  { name, people, random }: { name: string; people: Person[]; random: Random },
): Household {
  const { journal, world } = stage;
  const address = addressFrom(random);
  const browser = openWatchedBrowser(journal, { actor: name, base: world.stack.base, target: "web", address });
  const standings = new Map<string, Standing>(people.map(({ id }) => [id, "out"]));
  const sessionIds = new Map<string, string>();
  const ended: EndedSession[] = [];
  /** Undefined if the active account is uncertain. */
  let active: string | null | undefined = null;

  const inStanding = (standing: Standing) => people.filter(({ id }) => standings.get(id) === standing);
  const failed = ({ status }: PageAnswer) => status >= 500;

  /** Marks accounts as doubtful because an answer did not arrive. */
  function doubt(...ids: string[]): void {
    for (const id of ids) standings.set(id, "doubtful");
    active = undefined;
  }

  async function reconcile(): Promise<boolean> {
    const answer = await browser.get(accounts);
    if (failed(answer)) return false;
    if (answer.status !== 200) {
      for (const { id } of inStanding("held"))
        journal.find(name, `no account is listed (${answer.status}), yet ${id} is signed in`);
      for (const { id } of people) standings.set(id, "out");
      active = null;
      return true;
    }
    const there = listed(answer.text);
    for (const person of people) {
      const entry = there.find(({ id }) => id === person.id);
      const isIn = entry !== undefined && !entry.requiresReauth;
      if (standings.get(person.id) === "held" && !isIn) {
        journal.find(
          name,
          `account ${person.id} is ${entry ? "listed as signed out" : "gone"}, but was not signed out`,
        );
      }
      if (standings.get(person.id) === "out" && isIn)
        journal.find(name, `account ${person.id} is listed after its sign-out`);
      standings.set(person.id, isIn ? "held" : "out");
    }
    active = there.find((entry) => entry.active && !entry.requiresReauth)?.id ?? null;
    return true;
  }

  async function signIn(person: Person): Promise<void> {
    const path = active === null && inStanding("held").length === 0 ? "/login" : "/add-account";
    if (random.chance(0.25)) {
      const typo = await browser.post(path, { email: person.email, password: `${person.password} `, returnUrl: "" });
      if (typo.status < 400) journal.find(name, `a wrong password was answered ${typo.status}`);
      journal.count("wrong passwords");
    }
    try {
      const answer = await browser.post(path, { email: person.email, password: person.password, returnUrl: "" });
      if (answer.status === 429) return journal.count("limited");
      if (failed(answer)) return doubt(person.id);
      if (answer.status >= 400)
        return journal.find(name, `the right password was answered ${answer.status}: ${answer.words.slice(0, 120)}`);
    } catch (error) {
      if (error instanceof NoAnswer) doubt(person.id);
      throw error;
    }
    standings.set(person.id, "held");
    active = person.id;
    journal.count("sign-ins");
    await readSession();
  }

  async function readSession(): Promise<void> {
    const { status, text } = await browser.get("/api/v1/auth/session");
    if (status >= 500) return;
    const expected = active;
    if (status === 401 && expected) {
      journal.find(name, `the session of ${expected} has ended unexpectedly`);
      return;
    }
    if (status !== 200) return;
    const { user, sessionId } = JSON.parse(text) as { user: { id: string }; sessionId: string };
    if (expected !== undefined && user.id !== expected) journal.find(name, `acts as ${user.id}, not as ${expected}`);
    active = user.id;
    sessionIds.set(user.id, sessionId);
  }

  async function readPage(): Promise<void> {
    const path = random.oneOf(["/", "/workspaces", "/accounts", "/settings/security", "/settings/profile"]);
    const { status, location } = await browser.get(path);
    if (active && status < 400 && location?.startsWith("/login")) {
      journal.find(name, `${path} sends ${active} to the sign-in`);
    }
    journal.count("pages");
  }

  async function switchTo(person: Person): Promise<void> {
    try {
      const { status, text } = await browser.postJson(`${accounts}/switch`, { accountId: person.id });
      // The switch may have happened despite the error.
      if (status >= 500) active = undefined;
      else if (status === 200) active = person.id;
      else journal.find(name, `a switch to ${person.id} was answered ${status}: ${text.slice(0, 200)}`);
      if (status === 200) journal.count("switches");
      else if (status < 500) standings.set(person.id, "out");
    } catch (error) {
      if (error instanceof NoAnswer) active = undefined;
      throw error;
    }
    await readSession();
  }

  async function signOut(who: Person | "all"): Promise<void> {
    const leaving = who === "all" ? inStanding("held") : [who];
    const tokenOf = (id: string) => (id === active ? accessTokenOf(browser) : null);
    const sessions = leaving.flatMap(({ id }) => {
      const sessionId = sessionIds.get(id);
      return sessionId ? [{ actor: name, sessionId, userId: id, accessToken: tokenOf(id) }] : [];
    });
    try {
      const answer =
        who === "all"
          ? await browser.postJson(`${accounts}/logout-all`, {})
          : await browser.sendJson("DELETE", `${accounts}/${who.id}`);
      if (failed(answer)) return doubt(...leaving.map(({ id }) => id));
      if (answer.status !== 200) {
        return journal.find(name, `a sign-out was answered ${answer.status}: ${answer.text.slice(0, 200)}`);
      }
      for (const { id } of leaving) {
        standings.set(id, "out");
        sessionIds.delete(id);
      }
      ended.push(...sessions.map((session) => ({ ...session, endedAt: Date.now() })));
      active = (JSON.parse(answer.text) as { activeAccountId: string | null }).activeAccountId;
      journal.count("sign-outs");
    } catch (error) {
      if (error instanceof NoAnswer) doubt(...leaving.map(({ id }) => id));
      throw error;
    }
  }

  /**
   * Waits for all actions to end, then throws if one of them failed. The actions run concurrently, like those of tabs
   * that share a browser's cookies.
   */
  async function together(deeds: readonly Promise<unknown>[]): Promise<void> {
    const done = await Promise.allSettled(deeds);
    const failure = done.find((one) => one.status === "rejected");
    if (failure) throw failure.reason;
  }

  async function act(): Promise<void> {
    if ((active === undefined || inStanding("doubtful").length > 0) && !(await reconcile())) return;
    const [held, out] = [inStanding("held"), inStanding("out")];
    const deed = random.weighted({
      session: 6,
      page: 5,
      switch: held.length > 1 ? 7 : 0,
      tabs: held.length > 0 ? 2 : 0,
      "switch among tabs": held.length > 1 ? 2 : 0,
      list: 2,
      "sign in": out.length > 0 ? (held.length === 0 ? 30 : 5) : 0,
      "sign out": held.length > 1 ? 1.5 : 0,
      "sign out of all": held.length > 0 ? 0.5 : 0,
    });
    switch (deed) {
      case "session":
        return readSession();
      case "page":
        return readPage();
      case "list":
        await reconcile();
        return;
      case "switch":
        return switchTo(random.oneOf(held));
      case "tabs":
        await together([readSession(), readPage(), readPage(), readSession()]);
        return;
      case "switch among tabs":
        // Concurrent requests may be answered for either account, but cookies that arrive late must not undo the
        // switch.
        await together([switchTo(random.oneOf(held)), readPage(), browser.get(accounts)]);
        return readSession();
      case "sign in":
        return signIn(random.oneOf(out));
      case "sign out":
        return signOut(random.oneOf(held));
      case "sign out of all":
        return signOut("all");
    }
  }

  return {
    name,
    random,
    act,
    pauseMs: [250, 1_200],
    browser,
    people,
    standings,
    sessionIds,
    ended,
    reconcile,
    active: () => active ?? null,
  };
}
