import { asApp, createApp, createPerson, mint, type Person, paths, type TestApp } from "../../../scripts/test/apps.ts";
import type { GatewayTenant } from "./tenant.ts";

/** Creates a signed-in member of the tenant's workspace. */
export async function createMember(tenant: GatewayTenant): Promise<Person> {
  const person = await createPerson();
  await tenant.db.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
    [tenant.workspaceId, person.id],
  );
  return person;
}

/** Registers an external app linked to the tenant's workspace, and issues its token for a member. */
export async function createAppToken(tenant: GatewayTenant, person: Person): Promise<{ app: TestApp; token: string }> {
  const scopes = ["workspace:session", "ai:use", "tts:use"];
  const app = await createApp({ kind: "external", scopes, workspaceId: tenant.workspaceId });
  const handoff = { token: await mint(person, app), workspaceId: tenant.workspaceId };
  const { status, body } = await asApp(app, paths.exchange, handoff);
  if (status !== 200) throw new Error(`the exchange answered ${status}: ${JSON.stringify(body)}`);
  return { app, token: (body as { accessToken: string }).accessToken };
}
