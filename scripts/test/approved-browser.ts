import { type AuthenticatorApp, codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { openPhone, unlockedPhone } from "../../remix-app/testing/phone.ts";
import { enter, type Person, type SignedInBrowser } from "./people.ts";
import { readStack } from "./stack.ts";

const { base, supabase } = readStack();
const challenges = "/api/v1/auth/mfa/mobile/challenges";

/**
 * Signs in to an account in a browser. A phone that has verified an authenticator code then approves the browser's
 * request for a second factor.
 */
export async function enterApproved(person: Person, app: AuthenticatorApp): Promise<SignedInBrowser> {
  // The phone's authenticator code ends the account's other AAL1 sessions, so the browser signs in after the phone.
  const prove = { factorId: app.factorId, code: codeOf(app) };
  const phone = await openPhone({ base, ...supabase }, { ...person, prove });
  const browser = await enter(person);
  const { id, secret, pairCode } = JSON.parse((await browser.postJson(challenges, {})).text);
  await phone.post(`${challenges}/${id}/approve`, { decision: "approve", pairCode, device: unlockedPhone });
  const { text } = await browser.get(`${challenges}/${id}?secret=${secret}`);
  if (JSON.parse(text).status !== "bound") throw new Error(`the approval was not bound: ${text}`);
  return browser;
}

/** Returns a browser's Cookie header without the approval. */
export function cookieWithoutApproval(browser: Pick<SignedInBrowser, "cookie">): string {
  return browser
    .cookie()
    .split("; ")
    .filter((pair) => !pair.startsWith("ttr_mfa_mobile_approval="))
    .join("; ");
}
