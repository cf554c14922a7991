import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { CommandLinePhone } from "../../test/command-line-phone.ts";
import type { Person } from "../../test/people.ts";
import type { Random } from "../random.ts";
import type { Actor, Stage } from "./actor.ts";
import { addressFrom, openWatchedBrowser } from "./watched-browser.ts";

const challenges = "/api/v1/auth/qr-login/challenges";
const polls = 8;
const pollMs = 400;

/** Somebody with a browser and the command-line phone, who signs the browser in anew by its QR code. */
export function createPhoneUser(
  stage: Stage,
  { name, person, phone, random }: { name: string; person: Person; phone: CommandLinePhone; random: Random },
): Actor {
  const { journal, world } = stage;
  const open = () =>
    openWatchedBrowser(journal, { actor: name, base: world.stack.base, target: "web", address: addressFrom(random) });
  let browser = open();
  let browserIsIn = false;
  let phoneIsIn = false;

  async function prepare(): Promise<boolean> {
    if (!browserIsIn) {
      browser = open();
      const { status } = await browser.post("/login", {
        email: person.email,
        password: person.password,
        returnUrl: "",
      });
      browserIsIn = status < 400;
    }
    if (!phoneIsIn) {
      rmSync(phone.sessionFile, { force: true });
      const { code } = await phone.run(["sign-in", person.email], { MOBILE_PASSWORD: person.password });
      phoneIsIn = code === 0;
    }
    return browserIsIn && phoneIsIn;
  }

  async function act(): Promise<void> {
    if (!(await prepare())) return;
    const begun = await browser.postJson(challenges, {});
    // Whatever it was that ended its session, such as an answer that did not come: it signs in again.
    if (begun.status === 401) browserIsIn = false;
    if (begun.status !== 201) return;
    const { id, secret, payload } = JSON.parse(begun.text) as { id: string; secret: string; payload: string };
    const said = await phone.run(["qr", "approve", payload]);
    if (said.code !== 0) {
      if (/sign in again|Nobody is signed in|session is over/i.test(said.err)) phoneIsIn = false;
      return;
    }
    for (let n = 0; n < polls; n += 1) {
      const { status, text } = await browser.get(`${challenges}/${id}?secret=${secret}`);
      if (status === 200) {
        const answer = JSON.parse(text) as { status: string; session?: { userId: string } };
        if (answer.session) {
          if (answer.session.userId !== person.id)
            journal.find(name, `the handoff gave a session of ${answer.session.userId}`);
          return journal.count("QR handoffs");
        }
        // The answer that held the session did not come.
        if (answer.status === "consumed") browserIsIn = false;
        if (answer.status !== "created" && answer.status !== "approved") return;
      } else if (status < 500) {
        browserIsIn = false;
        return;
      }
      await sleep(pollMs);
    }
  }

  return { name, random, act, pauseMs: [4_000, 9_000] };
}
