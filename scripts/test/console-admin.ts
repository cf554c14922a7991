import { type AuthenticatorApp, codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { createPerson, enter, insertAuthenticators, type Person, query, type SignedInBrowser } from "./people.ts";

/** An infrastructure admin or a finance person in a browser that has just verified a code. */
export interface ConsoleAdmin extends Person {
  browser: SignedInBrowser;
  app: AuthenticatorApp;
}

const roleTables = { admin: "private.infrastructure_admins", finance: "private.finance_people" } as const;

/** Creates a person with a role in the console, who can be deleted like any other person. */
export async function createConsoleAdmin({ role = "admin" as keyof typeof roleTables } = {}): Promise<ConsoleAdmin> {
  const person = await createPerson();
  await query(`insert into ${roleTables[role]} (user_id, reason) values ($1, 'test')`, [person.id]);
  const [app] = await insertAuthenticators(person, ["Phone"]);
  if (!app) throw new Error("no app");
  const browser = await enter(person);
  await browser.post("/mfa", { factorId: app.factorId, code: codeOf(app, 1) });
  return { ...person, browser, app };
}
