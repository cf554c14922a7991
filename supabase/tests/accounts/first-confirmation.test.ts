import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, enrollFactor, join, one, signIn, test } from "../database.ts";
import { createIdentity } from "../sign-in/oauth-fixtures.ts";

const sent = {
  display_name: "Squatter",
  name: "Squatter",
  avatar_url: "https://evil.example/a.png",
  role: "admin",
  email_verified: false,
};

/** Creates an account as if somebody had signed up an hour ago. */
async function signUp(db: Database, userMetadata: object = sent) {
  const user = await createUser(db, { userMetadata });
  await db.query("update public.profiles set created_at = now() - interval '1 hour' where id = $1", [user.id]);
  return user;
}

/** Confirms the email as Auth does: sets the confirmation, then writes back the metadata that Auth had read before. */
async function confirm(db: Database, { id, metadata = sent }: { id: string; metadata?: object }) {
  await db.query("update auth.users set email_confirmed_at = clock_timestamp() where id = $1", [id]);
  await db.query("update auth.users set raw_user_meta_data = $2 where id = $1", [
    id,
    JSON.stringify({ ...metadata, email_verified: true }),
  ]);
}

const accountOf = (db: Database, id: string) =>
  one(db, {
    sql: `select p.display_name, p.avatar_url, w.name as workspace, u.raw_user_meta_data as metadata
          from auth.users u
          join public.profiles p on p.id = u.id
          join public.workspaces w on w.personal_user_id = u.id and w.deleted_at is null
          where u.id = $1`,
    values: [id],
  });
const fresh = ({ id }: { id: string }) => ({
  display_name: id,
  avatar_url: null,
  workspace: `${id}'s workspace`,
  metadata: { email_verified: true },
});
const kept = {
  display_name: "Squatter",
  avatar_url: "https://evil.example/a.png",
  workspace: "Squatter's workspace",
  metadata: { ...sent, email_verified: true },
};

describe("the first confirmation of an email", () => {
  test("the first confirmation of an email removes all profile data that the sign-up submitted", async ({ db }) => {
    const user = await signUp(db);
    await confirm(db, user);
    expect(await accountOf(db, user.id)).toEqual(fresh(user));
  });

  test("the first confirmation keeps the profile data from a provider that verified the email", async ({ db }) => {
    const user = await signUp(db);
    const claims = { email: user.email, email_verified: true, name: "Ada", avatar_url: "https://ada.example/a.png" };
    const identity = await createIdentity(db, { userId: user.id, email: user.email });
    await db.query("update auth.identities set identity_data = $2 where id = $1", [identity, JSON.stringify(claims)]);
    await confirm(db, user);
    expect(await accountOf(db, user.id)).toEqual({
      display_name: "Ada",
      avatar_url: "https://ada.example/a.png",
      workspace: "Ada's workspace",
      metadata: claims,
    });
  });

  test("the first confirmation removes identities with an unverified email, and adds the email identity", async ({
    db,
  }) => {
    const user = await signUp(db);
    await createIdentity(db, { userId: user.id, email: user.email, verified: false });
    await confirm(db, user);
    const identities = await db.query("select provider from auth.identities where user_id = $1", [user.id]);
    expect(identities).toEqual([{ provider: "email" }]);
  });

  test("the first confirmation removes everything added to the account earlier, and closes workspaces created earlier", async ({
    db,
  }) => {
    const user = await signUp(db);
    const [guest, host] = [await createUser(db), await createUser(db)];
    const founded = randomUUID();
    const joint = randomUUID();
    await signIn(db, { userId: user.id });
    await db.query(
      `insert into auth.webauthn_credentials (id, user_id, credential_id, public_key, friendly_name, created_at)
       values ($1, $2, $3, $3, 'Phone', now())`,
      [randomUUID(), user.id, randomBytes(24)],
    );
    await enrollFactor(db, { userId: user.id });
    for (const id of [founded, joint]) {
      await db.query("insert into public.workspaces (id, name, created_by) values ($1, 'Evil', $2)", [id, user.id]);
    }
    await join(db, { workspaceId: founded, userId: guest.id, role: "member" });
    await join(db, { workspaceId: joint, userId: guest.id, role: "owner" });
    await join(db, { workspaceId: host.personalWorkspaceId, userId: user.id, role: "member" });
    for (const workspaceId of [user.personalWorkspaceId, founded, joint]) {
      await db.query(
        `insert into ai.keys (workspace_id, lineage_id, name, lookup, secret_hash, created_by)
         values ($1, gen_random_uuid(), 'key', left(translate($2, '-', ''), 12), $3, $4)`,
        [workspaceId, randomUUID(), randomBytes(32), user.id],
      );
      await db.query(
        `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by)
         select workspace_id, 'x@example.test', id, $2, $3 from public.workspace_roles
         where workspace_id = $1 and name = 'member'`,
        [workspaceId, randomBytes(32), user.id],
      );
    }
    await confirm(db, user);

    expect(await accountOf(db, user.id)).toEqual(fresh(user));
    const left = await one(db, {
      sql: `select
        (select count(*)::integer from auth.sessions where user_id = $1) as sessions,
        (select count(*)::integer from auth.mfa_factors where user_id = $1) as authenticators,
        (select count(*)::integer from auth.webauthn_credentials where user_id = $1) as passkeys,
        (select count(*)::integer from ai.keys where created_by = $1 and revoked_at is null) as keys,
        (select count(*)::integer from public.workspace_invitations where invited_by = $1) as invitations,
        (select count(*)::integer from public.workspace_members where user_id = $1) as memberships`,
      values: [user.id],
    });
    expect(left).toEqual({ sessions: 0, authenticators: 0, passkeys: 0, keys: 0, invitations: 0, memberships: 1 });
    const workspaces = await db.query<{ id: string; open: boolean }>(
      "select id, deleted_at is null as open from public.workspaces where id = any ($1::uuid[]) and name <> 'Deleted workspace' or id = $2",
      [[founded, joint, user.personalWorkspaceId], host.personalWorkspaceId],
    );
    expect(workspaces.map(({ id, open }) => [id, open]).sort()).toEqual(
      [
        [joint, true],
        [host.personalWorkspaceId, true],
      ].sort(),
    );
  });

  test("the first confirmation keeps an unused personal workspace", async ({ db }) => {
    const user = await signUp(db);
    await confirm(db, user);
    const [workspace] = await db.query("select id from public.workspaces where personal_user_id = $1", [user.id]);
    expect(workspace).toEqual({ id: user.personalWorkspaceId });
  });
});

describe("an account that was used before its email was confirmed", () => {
  test("the first confirmation of an email resets an account that was already used and removes its password, even after an earlier email change", async ({
    db,
  }) => {
    const user = await signUp(db);
    await db.query(
      `update auth.users set last_sign_in_at = now() - interval '1 day', encrypted_password = 'known',
         email_change = 'mine@example.test', email_change_token_new = 'sent'
       where id = $1`,
      [user.id],
    );
    await db.query(
      `insert into public.security_events (user_id, kind, created_at)
       values ($1, 'email_changed', now() - interval '1 second')`,
      [user.id],
    );
    await signIn(db, { userId: user.id });
    await confirm(db, user);
    expect(await accountOf(db, user.id)).toEqual(fresh(user));
    const left = await one(db, {
      sql: `select u.encrypted_password, u.email_change, u.email_change_token_new,
              (select count(*)::integer from auth.sessions s where s.user_id = u.id) as sessions
            from auth.users u where u.id = $1`,
      values: [user.id],
    });
    expect(left).toEqual({ encrypted_password: "", email_change: "", email_change_token_new: "", sessions: 0 });
  });

  test("the first confirmation keeps the password of an account that was never used, because the owner may have set that password", async ({
    db,
  }) => {
    const user = await signUp(db);
    await db.query("update auth.users set encrypted_password = 'typed' where id = $1", [user.id]);
    await confirm(db, user);
    const row = await one(db, { sql: "select encrypted_password from auth.users where id = $1", values: [user.id] });
    expect(row).toEqual({ encrypted_password: "typed" });
  });
});

describe("changing an account's email to the address of one of its other identities", () => {
  /** Changes the email as Supabase Auth does after the identity with the account's current email is unlinked. */
  const promote = (db: Database, { id, email }: { id: string; email: string }) =>
    db.query("update auth.users set email = $2 where id = $1", [id, email]);
  const refusal = "an unconfirmed identity cannot give its address to the account";

  test.for([
    ["that the provider has verified", [true], true],
    ["that the provider has not verified", [false], false],
    ["that one of two providers has verified", [false, true], true],
  ] as const)(
    "an identity's address can become the account's email only if a provider has verified it: an address %s",
    async ([, verified, allowed], { db }) => {
      const user = await createUser(db);
      for (const [index, one] of verified.entries()) {
        const identity = { userId: user.id, email: "victim@example.test", verified: one, provider: `provider${index}` };
        await createIdentity(db, identity);
      }
      if (allowed) await promote(db, { ...user, email: "victim@example.test" });
      else await expect(promote(db, { ...user, email: "victim@example.test" })).rejects.toThrow(refusal);
    },
  );

  test("an identity's unverified address can become the account's email if the account's email identity has that address", async ({
    db,
  }) => {
    const user = await createUser(db);
    await createIdentity(db, { userId: user.id, email: "other@example.test", verified: false });
    await createIdentity(db, { userId: user.id, email: "other@example.test", verified: false, provider: "email" });
    await promote(db, { ...user, email: "other@example.test" });
  });
});

describe("whether the first confirmation resets an account", () => {
  test("a second email confirmation keeps what the owner set after the first", async ({ db }) => {
    const user = await signUp(db);
    await confirm(db, user);
    await db.query("select set_config('gatehouse.first_confirmation', '', true)");
    await db.query('update auth.users set raw_user_meta_data = \'{"name": "Ada"}\' where id = $1', [user.id]);
    await db.query("update public.profiles set display_name = 'Ada' where id = $1", [user.id]);
    await db.query("update auth.users set email_confirmed_at = clock_timestamp() where id = $1", [user.id]);
    expect(await accountOf(db, user.id)).toMatchObject({ display_name: "Ada", metadata: { name: "Ada" } });
  });

  test("the first confirmation does not reset an account that was created in the same transaction", async ({ db }) => {
    const user = await createUser(db, { userMetadata: sent });
    await confirm(db, user);
    expect(await accountOf(db, user.id)).toEqual(kept);
  });

  test.for([
    ["499 milliseconds", true],
    ["500 milliseconds", false],
  ] as const)(
    "the first confirmation resets an account unless the account was invited less than 500 ms after its creation: invited after %s",
    async ([after, keeps], { db }) => {
      const user = await signUp(db);
      await db.query("update auth.users set created_at = now(), invited_at = now() + $2::interval where id = $1", [
        user.id,
        after,
      ]);
      await confirm(db, user);
      expect(await accountOf(db, user.id)).toEqual(keeps ? kept : fresh(user));
    },
  );

  test("adding and confirming a first email does not reset an account that has already signed in", async ({ db }) => {
    const user = await signUp(db);
    await db.query("update auth.users set email = null, last_sign_in_at = now() where id = $1", [user.id]);
    await db.query("update auth.users set email = $2 where id = $1", [user.id, user.email]);
    await confirm(db, user);
    expect(await accountOf(db, user.id)).toEqual(kept);
  });
});

test("an email identity contains no sign-up metadata", async ({ db }) => {
  const user = await createUser(db);
  const own = { sub: user.id, email: user.email, email_verified: false, phone_verified: false };
  const { id } = await one<{ id: string }>(db, {
    sql: `insert into auth.identities (provider_id, user_id, identity_data, provider, created_at, updated_at)
          values ($1, $2, $3, 'email', now(), now()) returning id`,
    values: [user.id, user.id, JSON.stringify({ ...own, ...sent })],
  });
  await db.query("update auth.identities set identity_data = $2 where id = $1", [
    id,
    JSON.stringify({ ...own, ...sent, email_verified: true }),
  ]);
  const row = await one(db, { sql: "select identity_data from auth.identities where id = $1", values: [id] });
  expect(row).toEqual({ identity_data: { ...own, email_verified: true } });
});

describe("remove_unproven_password", () => {
  test.for([
    ["to an unconfirmed account", {}, "signup", true],
    ["sent 59 minutes ago", { age: "59 minutes" }, "signup", true],
    ["sent an hour ago, which confirms nothing", { age: "1 hour" }, "signup", false],
    ["of another type", {}, "recovery", false],
    ["to reset the password", { token: "recovery" }, "recovery", true],
    ["to a confirmed account", { token: "recovery", confirmed: true }, "recovery", false],
  ] as const)(
    "only a link that confirms the account removes an unproven password: a link %s",
    async ([, link, type, removed], { db }) => {
      const {
        age = "0",
        token = "confirmation",
        confirmed = false,
      }: { age?: string; token?: string; confirmed?: boolean } = link;
      const user = await createUser(db);
      const hash = randomUUID();
      await db.query(
        `update auth.users set encrypted_password = 'known', ${token}_sent_at = now() - $2::interval,
         email_confirmed_at = case when $3 then now() end
       where id = $1`,
        [user.id, age, confirmed],
      );
      await db.query(
        `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
       values ($1, $2, $3, $4, $5)`,
        [randomUUID(), user.id, `${token}_token`, hash, user.email],
      );
      await db.asRole("service_role", () => db.query("select private.remove_unproven_password($1, $2)", [hash, type]));
      const row = await one(db, { sql: "select encrypted_password from auth.users where id = $1", values: [user.id] });
      expect(row).toEqual({ encrypted_password: removed ? "" : "known" });
    },
  );
});
