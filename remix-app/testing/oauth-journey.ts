import { createClient } from "@supabase/supabase-js";
import { Pool } from "pg";
import { afterAll, beforeEach } from "vitest";
import { type Browser, openBrowser } from "./browser.ts";
import { type ProviderAnswer, visitProvider } from "./provider-visit.ts";

/** The stack under test, as returned by readStack. */
interface Target {
  base: string;
  supabase: { url: string; secretKey: string; dbUrl: string };
}

/** Returns helpers for tests that sign in with a provider. Deletes the accounts of the tests afterwards. */
export function oauthJourney({ base, supabase }: Target) {
  const service = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
  const database = new Pool({ connectionString: supabase.dbUrl, max: 2 });
  const domain = `${crypto.randomUUID().slice(0, 8)}.oauth.gatehouse.test`;
  let people = 0;
  let provider = "";

  beforeEach(async () => {
    // Uses the first provider on the sign-in page, because a stack with a real Supabase Auth may enable other
    // providers.
    provider ||= /\/auth\/oauth\/([a-z]+)/.exec((await openBrowser(base).get("/login")).text)?.[1] ?? "";
  });
  afterAll(async () => {
    await database.query("delete from auth.users where email like $1", [`%${domain}`]);
    await database.end();
  });

  const query = async <Row>(sql: string, ...values: unknown[]) => (await database.query(sql, values)).rows as Row[];

  return {
    base,
    service,
    query,
    get provider() {
      return provider;
    },
    newEmail: () => `person-${++people}@${domain}`,

    /** Creates an account with a password and signs it in. */
    async member(password = "correct horse battery") {
      const email = `person-${++people}@${domain}`;
      const { data, error } = await service.auth.admin.createUser({ email, password, email_confirm: true });
      if (error) throw error;
      const browser = openBrowser(base);
      const { location } = await browser.post("/login", { email, password });
      if (location !== "/") throw new Error("the member could not sign in");
      return { email, password, id: data.user.id, browser };
    },

    /** Begins a provider sign-in on our pages. @returns the provider's URL */
    async setOut(browser: Browser, fields: Record<string, string> = {}, at = provider): Promise<string> {
      const { status, location, text } = await browser.post(`/auth/oauth/${at}`, fields);
      if (status !== 303 || !location) throw new Error(`no way to ${at}: ${status} ${text.slice(0, 500)}`);
      return location;
    },

    /** Follows a sign-in from the provider's URL back to our site. Does not visit the returned URL. */
    comeBack: (address: string, answer: ProviderAnswer) => visitProvider(address, { ourOrigin: base, ...answer }),

    /** Completes a whole provider sign-in. */
    async signIn(browser: Browser, answer: ProviderAnswer, fields: Record<string, string> = {}) {
      return browser.get(await this.comeBack(await this.setOut(browser, fields), answer));
    },

    async accountOf(email: string) {
      const [row] = await query<{ id: string }>("select id from auth.users where email = $1", email);
      return row?.id;
    },

    /** Returns a person's session ids. A new session shows that a code was exchanged. */
    async sessionsOf(email: string): Promise<string[]> {
      const rows = await query<{ id: string }>(
        "select s.id from auth.sessions s join auth.users u on u.id = s.user_id where u.email = $1 order by s.created_at",
        email,
      );
      return rows.map(({ id }) => id);
    },

    /** Returns whether a URL's code can still be exchanged. */
    async codeIsGood(address: string): Promise<boolean> {
      const code = new URL(address).searchParams.get("code");
      return (await query("select from auth.flow_state where auth_code = $1", code)).length === 1;
    },

    async providersOf(email: string): Promise<string[]> {
      const rows = await query<{ provider: string }>(
        "select i.provider from auth.identities i join auth.users u on u.id = i.user_id where u.email = $1 order by 1",
        email,
      );
      return rows.map(({ provider }) => provider);
    },

    async eventsOf(userId: string) {
      return query<{ kind: string; method: string | null; details: object }>(
        "select kind, method, details from public.security_events where user_id = $1 order by created_at",
        userId,
      );
    },
  };
}
