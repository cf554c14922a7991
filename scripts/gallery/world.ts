import { createClient } from "@supabase/supabase-js";
import pg from "pg";
import { confirmationLink, linkOfMail } from "../../e2e/mailbox.ts";
import { codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { asApp, createApp, mint, paths, signInAgain } from "../test/apps.ts";
import { askFromDevice, createDeviceClient, expireRequest } from "../test/device-requests.ts";
import { ask, createOpenidClient, signInAt } from "../test/openid.ts";
import { enter, insertAuthenticators, signedInLongAgo } from "../test/people.ts";
import { createHelper } from "../test/recovery-help.ts";
import { readStack } from "../test/stack.ts";
import { fillWorkspace } from "./fill-workspace.ts";
import { openOutposts } from "./outposts.ts";

const userAgent = "Mozilla/5.0 (X11; Linux x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/** A confirmed account. */
export interface Account {
  id: string;
  email: string;
  password: string;
}

/** The data that the pages are shown with. */
export type World = Awaited<ReturnType<typeof createWorld>>;

/**
 * Fills the stack that GATEHOUSE_STACK names with people, a workspace with two months of runs, and data for the scenes.
 */
export async function createWorld() {
  const { base, supabase, satellites, workspaceId, users, mail } = readStack();
  const satellite = satellites[0]?.url ?? "";
  const client = new pg.Client({ connectionString: supabase.dbUrl });
  await client.connect();
  const query = async <Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> =>
    (await client.query<Row>(sql, values)).rows;
  const { admin } = createClient(supabase.url, supabase.secretKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  }).auth;

  const createAccount = async (name = "Robin Okafor", local = "robin.okafor"): Promise<Account> => {
    const id = crypto.randomUUID();
    const account = { email: `${local}.${id.slice(0, 6)}@northern-lights.example`, password: `correct horse ${id}` };
    // Another state may have closed sign-up for a moment.
    await query("select private.admit_imported_account($1)", [account.email]);
    const made = await admin.createUser({ ...account, email_confirm: true, user_metadata: { display_name: name } });
    if (made.error) throw made.error;
    // The confirmation must be in the past. The backend would mistake a sign-in link used within the same second for
    // the link that confirmed the email.
    await query("update auth.users set email_confirmed_at = now() - interval '1 hour' where id = $1", [
      made.data.user.id,
    ]);
    return { ...account, id: made.data.user.id };
  };

  /** Signs in as the sign-in page does. @returns the browser's Cookie header @throws if it is refused */
  const signIn = async ({ email, password }: Account): Promise<string> => {
    const app = apps.get(email);
    const browser = openBrowser(base, { address: newAddress(), userAgent });
    const entered = async (path: string, fields: Record<string, string>) => {
      const { status, words } = await browser.post(path, fields);
      if (status !== 302)
        throw new Error(`${email} was not let in: ${path} answered ${status}: ${words.slice(0, 300)}`);
    };
    await entered("/login", { email, password, returnUrl: "" });
    if (app) await entered("/mfa", { factorId: app.factorId, code: codeOf(app, 1) });
    return browser.cookie();
  };

  /** Adds verified authenticator apps to an account directly in the database. */
  const enroll = (account: Account, ...names: string[]) => insertAuthenticators(account, names);

  /** Creates a link that hands a person over to the satellite, as if somebody else had created it. */
  const handOver = async (account: Account): Promise<string> => {
    const token = await mint(await signInAgain(account), { id: "", name: "notes", secret: "" });
    return `${satellite}/verify-token?${new URLSearchParams({ token, nextUrl: "/", state: "theirs" })}`;
  };

  /** Requests a device sign-in. @returns the path of the device page, with the user code in the query */
  const askOnDevice = async ({ expired = false } = {}): Promise<string> => {
    const client = await createDeviceClient({ displayName: "Northwind CLI" });
    const request = await askFromDevice(client, { userAgent: "curl/8.11.0 (x86_64-pc-linux-gnu)" });
    if (expired) await expireRequest(request);
    return `/device?${new URLSearchParams({ user_code: request.userCode })}`;
  };

  const apps = new Map<string, Awaited<ReturnType<typeof enroll>>[number]>();
  const demo = users.find(({ role }) => role === "user");
  const [known] = await query<{ id: string }>("select id from auth.users where email = $1", [demo?.email]);
  const user = { id: known?.id ?? "", email: demo?.email ?? "", password: demo?.password ?? "" };
  const member = await createAccount(
    "Maximiliane Wolkenstein-Rodenegg von Hohenfels",
    "maximiliane.wolkenstein-rodenegg-von-hohenfels",
  );
  const admins = {
    admin: await createAccount("Ada Nwosu", "ada.nwosu"),
    finance: await createAccount("Finn Sommer", "finn.sommer"),
    owing: await createAccount(),
  };
  await query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'Runs the gallery')", [
    admins.admin.id,
  ]);
  const [phone] = await enroll(admins.admin, "Phone");
  if (phone) apps.set(admins.admin.email, phone);
  await query("insert into private.finance_people (user_id, reason) values ($1, 'Closes the months')", [
    admins.finance.id,
  ]);
  const [financePhone] = await enroll(admins.finance, "Phone");
  if (financePhone) apps.set(admins.finance.email, financePhone);
  await enroll(admins.owing, "Phone", "Tablet");
  await query("insert into private.mfa_recovery_codes (user_id, code_hash) values ($1, sha256('unknown'))", [
    admins.owing.id,
  ]);

  const workspace = await fillWorkspace(client, { owner: user, member, createAccount });
  const helper = await createHelper();
  const outposts = openOutposts();
  return {
    base,
    mailbox: mail.web,
    satellite,
    people: { user, member, ...admins },
    ...workspace,
    empty: workspaceId,
    query,
    createAccount,
    signIn,
    enroll,
    codeOf,
    createApp,
    createOpenidClient,
    askForAuthorization: ask,
    signedInLongAgo,
    confirmationLink,
    linkOfMail,
    handOver,
    askOnDevice,
    /** Creates a handover link and uses it. @returns the link @throws if it did not work the first time */
    useUp: async (account: Account): Promise<string> => {
      const link = await handOver(account);
      const token = new URL(link).searchParams.get("token") ?? "";
      const { status } = await openBrowser(satellite, { userAgent }).post("/verify-token", { token, nextUrl: "/" });
      if (status !== 303) throw new Error(`A link of ${account.email} was answered by ${status}.`);
      return link;
    },
    /** Connects a new external app to an account and a workspace. The app gets a token that allows it to use AI. */
    connectApp: async (account: Account, workspaceId: string): Promise<void> => {
      const app = await createApp({
        kind: "external",
        scopes: ["workspace:session", "ai:use", "tts:use"],
        workspaceId,
        displayName: "Sitzungsprotokollzusammenfassung für verteilte Teams",
        origins: [`https://minutes-${crypto.randomUUID().slice(0, 6)}.northern-lights.example`],
      });
      const token = await mint(await signInAgain(account), app);
      const { status } = await asApp(app, paths.exchange, { token, workspaceId });
      if (status !== 200) throw new Error(`The exchange was answered by ${status}.`);
    },
    /** Lets an OpenID client sign in an account. Ends the client's login again unless `isSignedIn` is set. */
    connectClient: async (account: Account, { isSignedIn }: { isSignedIn: boolean }): Promise<void> => {
      const client = await createOpenidClient({ scopes: ["profile", "workspaces:read"], displayName: "Field charts" });
      await signInAt(await enter(account), client, { scope: "openid profile email workspaces:read offline_access" });
      if (!isSignedIn) {
        await query("update private.openid_grants set revoked_at = now() where user_id = $1", [account.id]);
      }
    },
    /** Creates a recovery override for an account, and sends the email about it. */
    recover: async ({ email }: Pick<Account, "email">) => helper.send(email, await helper.override(email)),
    override: async ({ email }: Pick<Account, "email">, options: Parameters<typeof helper.override>[1] = {}) =>
      helper.override(email, options),
    outposts,
    /** Returns an account's personal workspace. */
    ownWorkspace: async ({ id }: Account): Promise<string> => {
      const [own] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [id]);
      return own?.id ?? "";
    },
    async close() {
      await outposts.close();
      await helper.leave();
      await client.end();
    },
  };
}
