import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { CommandLinePhone } from "../../test/command-line-phone.ts";
import type { Person } from "../../test/people.ts";
import type { Random } from "../random.ts";
import type { Actor, Stage } from "./actor.ts";
import { addressFrom, openWatchedBrowser, type WatchedBrowser } from "./watched-browser.ts";

const challenges = "/api/v1/auth/qr-login/challenges";
const polls = 8;
const pollMs = 400;

/** A person's browser and phone. `browser` is null, and `phoneIsIn` is false, while the person must sign in there. */
type Pair = { person: Person; phone: CommandLinePhone; browser: WatchedBrowser | null; phoneIsIn: boolean };

/**
 * Creates people who each have a browser and a command-line phone (scripts/mobile/). Each person signs the browser in
 * again by approving its QR code on the phone. People take turns, because a person may begin at most 20 challenges in
 * 15 minutes.
 */
export function createPhoneUsers(
  stage: Stage,
  {
    name,
    people,
    openPhone,
    random,
  }: { name: string; people: readonly Person[]; openPhone: () => CommandLinePhone; random: Random },
): Actor & { close(): void } {
  const { journal, world } = stage;
  const pairs = people.map((person): Pair => ({ person, phone: openPhone(), browser: null, phoneIsIn: false }));
  let turn = 0;

  async function prepare(pair: Pair): Promise<WatchedBrowser | null> {
    const { email, password } = pair.person;
    if (!pair.browser) {
      const address = addressFrom(random);
      const browser = openWatchedBrowser(journal, { actor: name, base: world.stack.base, target: "web", address });
      const { status } = await browser.post("/login", { email, password, returnUrl: "" });
      if (status < 400) pair.browser = browser;
    }
    if (!pair.phoneIsIn) {
      rmSync(pair.phone.sessionFile, { force: true });
      const { code } = await pair.phone.run(["sign-in", email], { MOBILE_PASSWORD: password });
      pair.phoneIsIn = code === 0;
    }
    return pair.phoneIsIn ? pair.browser : null;
  }

  async function handOff(pair: Pair, browser: WatchedBrowser): Promise<void> {
    const begun = await browser.postJson(challenges, {});
    // A 401 means that the browser's session has ended. The person signs in again on the next turn.
    if (begun.status === 401) pair.browser = null;
    if (begun.status !== 201) return;
    const { id, secret, payload } = JSON.parse(begun.text) as { id: string; secret: string; payload: string };
    const said = await pair.phone.run(["qr", "approve", payload]);
    if (said.code !== 0) {
      journal.count("phone refused");
      if (/sign in again|No account is signed in|session has ended/i.test(said.err)) pair.phoneIsIn = false;
      return;
    }
    for (let n = 0; n < polls; n += 1) {
      const { status, text } = await browser.get(`${challenges}/${id}?secret=${secret}`);
      if (status === 200) {
        const answer = JSON.parse(text) as { status: string; session?: { userId: string } };
        if (answer.session) {
          const { userId } = answer.session;
          if (userId !== pair.person.id) journal.find(name, `the handoff gave a session of ${userId}`);
          return journal.count("QR handoffs");
        }
        // The answer with the session was lost, so the browser is not signed in.
        if (answer.status === "consumed") pair.browser = null;
        if (answer.status !== "created" && answer.status !== "approved") return;
      } else if (status < 500) {
        pair.browser = null;
        return;
      }
      await sleep(pollMs);
    }
  }

  async function act(): Promise<void> {
    const pair = pairs[turn % pairs.length];
    turn += 1;
    if (!pair) return;
    const browser = await prepare(pair);
    if (browser) await handOff(pair, browser);
  }

  const close = () => {
    for (const { phone } of pairs) phone.close();
  };
  return { name, random, act, pauseMs: [3_000, 7_000], close };
}
