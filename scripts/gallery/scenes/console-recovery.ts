import { type Scene, statesOf } from "../define-states.ts";

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

/** The console's page of an email in the states that depend on locks and uses. */
export const consoleRecoveryStates = statesOf("Console", [
  ["Recovery, of a locked email", "admin/recovery", "admin", locked],
  ["Recovery, with a used override", "admin/recovery", "admin", used("days")],
  ["Recovery, after an override until first used", "admin/recovery", "admin", used("first_use")],
]);
