import type { DirectCall } from "./journey.ts";
import { callAsAdmin, enroll, newAddress, raised, signedIn, withPasskey } from "./phone.ts";

/** Calls with which an administrator changes an account, using the secret key. */
export const adminCalls: DirectCall[] = [
  {
    route: "POST /admin/users",
    title: "a new account",
    async prepare() {
      const email = newAddress();
      const body = { email, password: "correct horse battery", email_confirm: true };
      return { person: { email }, act: () => callAsAdmin("POST /admin/users", body) };
    },
  },
  {
    route: "POST /invite",
    title: "an invitation",
    async prepare() {
      const email = newAddress();
      return { person: { email }, act: () => callAsAdmin("POST /invite", { email }) };
    },
  },
  {
    route: "POST /admin/generate_link",
    title: "a recovery link",
    async prepare() {
      const { person } = await signedIn();
      const body = { type: "recovery", email: person.email };
      return { person, act: () => callAsAdmin("POST /admin/generate_link", body) };
    },
  },
  ...(
    [
      ["a new password", { password: "another horse battery" }, { password_changed: 1 }],
      ["a ban", { ban_duration: "24h" }, { account_banned: 1 }],
      ["metadata", { user_metadata: { full_name: "Ada" }, app_metadata: { plan: "team" } }, {}],
    ] as [string, object, Record<string, number>][]
  ).map(
    ([title, body, mails]): DirectCall => ({
      route: "PUT /admin/users/:id",
      title,
      events: Object.keys(mails),
      mails,
      async prepare() {
        const { person } = await signedIn();
        return { person, act: () => callAsAdmin(`PUT /admin/users/${person.id}`, body) };
      },
    }),
  ),
  {
    route: "PUT /admin/users/:id",
    title: "another address",
    events: ["email_changed"],
    mails: { email_changed: 2 },
    async prepare() {
      const { person } = await signedIn();
      return { person, act: () => callAsAdmin(`PUT /admin/users/${person.id}`, { email: newAddress() }) };
    },
  },
  {
    route: "PUT /admin/users/:id",
    title: "the end of a ban",
    events: ["account_unbanned"],
    mails: { account_unbanned: 1 },
    async prepare() {
      const { person } = await signedIn();
      await callAsAdmin(`PUT /admin/users/${person.id}`, { ban_duration: "24h" });
      return { person, act: () => callAsAdmin(`PUT /admin/users/${person.id}`, { ban_duration: "none" }) };
    },
  },
  {
    route: "DELETE /admin/users/:id/factors/:id",
    title: "an authenticator",
    events: ["authenticator_removed"],
    mails: { authenticator_removed: 1 },
    async prepare() {
      const { person, factor } = await raised();
      return { person, act: () => callAsAdmin(`DELETE /admin/users/${person.id}/factors/${factor.id}`) };
    },
  },
  {
    route: "PUT /admin/users/:id/factors/:id",
    title: "another name of an authenticator",
    async prepare() {
      const { person, session } = await signedIn();
      const { id } = await enroll(session.accessToken);
      const body = { friendly_name: "App" };
      return { person, act: () => callAsAdmin(`PUT /admin/users/${person.id}/factors/${id}`, body) };
    },
  },
  {
    route: "DELETE /admin/users/:id/passkeys/:id",
    title: "a passkey",
    events: ["passkey_removed"],
    mails: { passkey_removed: 1 },
    async prepare() {
      const { person, passkeyId } = await withPasskey();
      return { person, act: () => callAsAdmin(`DELETE /admin/users/${person.id}/passkeys/${passkeyId}`) };
    },
  },
  {
    route: "DELETE /admin/users/:id",
    title: "an account, as a soft delete",
    async prepare() {
      const { person } = await raised();
      const body = { should_soft_delete: true };
      return { person, act: () => callAsAdmin(`DELETE /admin/users/${person.id}`, body) };
    },
  },
  {
    route: "DELETE /admin/users/:id",
    title: "an account",
    async prepare() {
      const { person } = await raised();
      return { person, act: () => callAsAdmin(`DELETE /admin/users/${person.id}`) };
    },
  },
];
