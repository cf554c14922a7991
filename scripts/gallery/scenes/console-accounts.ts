import { type Scene, statesOf } from "../define-states.ts";

/** Returns a page of a new account. */
const ofAccount =
  (step: string, prepare?: (scene: Scene, id: string) => Promise<void>) =>
  async (scene: Scene): Promise<string> => {
    const { id } = await scene.world.createAccount("Nadia Lind", "nadia.lind");
    await prepare?.(scene, id);
    return `/admin/users/${id}${step}`;
  };

/** Calls a function of the console as the gallery's admin. */
async function change(
  { world }: Scene,
  { name, ...values }: { name: string; [field: string]: unknown },
): Promise<void> {
  const { id: actor } = world.people.admin;
  const stamped = { actor, reason: "Sent spam to other customers", requestId: "gallery", ip: "203.0.113.7", ...values };
  await world.query(`select private.${name}($1)`, [JSON.stringify(stamped)]);
}

const ban = (scene: Scene, subject: string) => change(scene, { name: "ban_account", subject, until: null });
const scheduleDeletion = (scene: Scene, subject: string) =>
  change(scene, { name: "request_account_deletion", subject });

/** Makes an account the only owner of a workspace with another member, and lets its deletion be due. */
async function blockDeletion(scene: Scene, subject: string): Promise<void> {
  const { world } = scene;
  await world.query("insert into public.workspaces (name, created_by) values ('Northern Lights Research', $1)", [
    subject,
  ]);
  await world.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select w.id, $2, r.id
     from public.workspaces w
     join public.workspace_roles r on r.workspace_id = w.id and r.name = 'member'
     where w.created_by = $1 and w.name = 'Northern Lights Research'`,
    [subject, world.people.member.id],
  );
  await scheduleDeletion(scene, subject);
  await world.query(
    `update private.account_deletions
     set requested_at = now() - interval '8 days', due_at = now() - interval '1 day' where user_id = $1`,
    [subject],
  );
  await world.query("select private.delete_due_accounts()");
}

/** Adds invitations in each state. */
async function invited(scene: Scene): Promise<string> {
  const { world } = scene;
  const account = await world.createAccount("Nadia Lind", "nadia.lind");
  await world.query(
    `insert into private.account_invitations (email, invited_by, reason, created_at, expires_at, revoked_at)
     values
       ($1, $2, 'New colleague in sales', now() - interval '9 days', now() + interval '5 days', null),
       ('robin.okafor@northern-lights.example', $2, 'Ticket 4711', now() - interval '2 hours', now() + interval '14 days', null),
       ('wrong@northern-lights.example', $2, 'Ticket 4711', now() - interval '1 day', now() + interval '13 days', now()),
       ('late@northern-lights.example', null, 'Pilot', now() - interval '20 days', now() - interval '6 days', null)
     on conflict do nothing`,
    [account.email, world.people.admin.id],
  );
  return "/admin/invitations";
}

/** Returns the id of the open invitation that `invited` adds. */
async function invitationId({ world }: Scene): Promise<string> {
  const [invitation] = await world.query<{ id: string }>(
    "select id from private.account_invitations where email = 'robin.okafor@northern-lights.example'",
  );
  return invitation?.id ?? "";
}

/** Closes sign-up, and returns an address. */
const closed =
  (path: string) =>
  async ({ world }: Scene): Promise<string> => {
    await world.query("update private.platform_settings set sign_up = 'invitation'");
    return path;
  };

/** Opens sign-up again once the page is shown, because other states need it. */
const reopen = async ({ world }: Scene): Promise<void> => {
  await world.query("update private.platform_settings set sign_up = 'open'");
};

const pageOf = (email: string) => `/admin/recovery?${new URLSearchParams({ email })}`;

/** Creates an account whose override was used, and returns the address of its page. */
const used =
  (validity: "days" | "first_use") =>
  async ({ world }: Scene) => {
    const account = await world.createAccount("Nadia Lind", "nadia.lind");
    const id = await world.override(account, { validity });
    await world.query("update private.recovery_overrides set used_at = now() where id = $1", [id]);
    return pageOf(account.email);
  };

/** Creates an account that a ban, a block and a limit lock, and returns the address of its page. */
async function locked({ world }: Scene) {
  const account = await world.createAccount("Nadia Lind", "nadia.lind");
  await world.query("update auth.users set banned_until = now() + interval '2 days' where id = $1", [account.id]);
  await world.query("insert into public.security_events (user_id, kind, ip) values ($1, 'sign_in', '203.0.113.8')", [
    account.id,
  ]);
  await world.query(
    `insert into private.address_blocks (address, action, level, blocked_until)
     values ('203.0.113.8', 'password', 1, now() + interval '15 minutes')`,
  );
  const attempt = JSON.stringify({ action: "password", email: account.email, address: "203.0.113.9" });
  await world.query("select private.begin_attempt($1) from generate_series(1, 10)", [attempt]);
  return pageOf(account.email);
}

/** An account's access, invitations and who may sign up. */
export const consoleAccountStates = statesOf("Console", [
  ["An account, banned", "admin/user", "admin", ofAccount("", ban)],
  ["An account, its deletion scheduled", "admin/user", "admin", ofAccount("", scheduleDeletion)],
  ["An account, its deletion blocked", "admin/user", "admin", ofAccount("", blockDeletion)],
  ["Ban an account", "admin/user-step", "admin", ofAccount("/ban")],
  ["Lift a ban", "admin/user-step", "admin", ofAccount("/unban", ban)],
  ["Delete an account", "admin/user-step", "admin", ofAccount("/delete")],
  ["Keep an account", "admin/user-step", "admin", ofAccount("/keep", scheduleDeletion)],
  ["Invitations", "admin/invitations", "admin", invited],
  ["Invite a person", "admin/invitations-new", "admin", "/admin/invitations/new"],
  [
    "Revoke an invitation",
    "admin/invitations-revoke",
    "admin",
    async (scene) => {
      await invited(scene);
      return `/admin/invitations/${await invitationId(scene)}/revoke`;
    },
  ],
  ["Settings", "admin/settings", "admin", "/admin/settings"],
  ["Settings, sign-up by invitation", "admin/settings", "admin", closed("/admin/settings"), reopen],
  ["Sign up, by invitation", "sign-in/signup", "anonymous", closed("/signup"), reopen],
  [
    "Sign up, invited",
    "sign-in/signup",
    "anonymous",
    async (scene) => {
      await invited(scene);
      await closed("")(scene);
      return `/signup?invitation=${await invitationId(scene)}`;
    },
    reopen,
  ],
  ["Recovery, of a locked email", "admin/recovery", "admin", locked],
  ["Recovery, with a used override", "admin/recovery", "admin", used("days")],
  ["Recovery, after an override until first used", "admin/recovery", "admin", used("first_use")],
]);
