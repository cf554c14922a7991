import { appScopes } from "../apps/app-rights.ts";
import { Select, TextArea } from "../ui/field.tsx";
import { ChangeField, ChangeTick } from "./change-fields.tsx";
import type { FailedChange } from "./failed-change.ts";
import type { RegisteredClient } from "./openid-clients.ts";
import { overlapLabels } from "./registry-steps.ts";

type FailedChangeProps = { failed: FailedChange | undefined };

/** The scopes that a satellite may be registered for. */
const satelliteScopes = appScopes.filter(({ scope }) => scope !== "studio:keys");

/** Renders the fields that an app's registration and edit forms share. */
export function AppFields({
  app,
  failed,
}: FailedChangeProps & {
  app: { displayName: string; origins: readonly string[]; scopes: readonly string[]; logoutUrl: string | null };
}) {
  return (
    <>
      <DisplayNameField displayName={app.displayName} failed={failed} />
      <Lines
        name="origins"
        label="Origins"
        hint="Where people sign in to the app: full origins, such as https://notes.example.com, one per line."
        lines={app.origins}
        failed={failed}
      />
      <LogoutUrlField logoutUrl={app.logoutUrl} failed={failed} />
      <ScopeBoxes offered={satelliteScopes} scopes={app.scopes} failed={failed} />
    </>
  );
}

type ClientFields = Pick<
  RegisteredClient,
  | "displayName"
  | "redirectUris"
  | "postLogoutRedirectUris"
  | "logoutUrl"
  | "allowsDeviceGrant"
  | "requiresPkce"
  | "claimsInIdToken"
  | "groupsWorkspaceId"
  | "scopes"
>;

/** The scopes that a client may be registered for: all except the gateway's. */
const clientScopes = appScopes.filter(({ right }) => right !== null);

/** Renders the fields that an OpenID client's registration and edit forms share. */
export function OpenidClientFields({
  client,
  isPublic = false,
  failed,
}: FailedChangeProps & { client: ClientFields; isPublic?: boolean }) {
  return (
    <>
      <DisplayNameField displayName={client.displayName} failed={failed} />
      <Lines
        name="redirectUris"
        label="Redirect URIs"
        hint="Where people return after signing in, such as https://app.example.com/callback, one per line."
        lines={client.redirectUris}
        failed={failed}
      />
      <Lines
        name="postLogoutRedirectUris"
        label="Post-logout redirect URIs"
        hint="Optional. Where people return after signing out, one per line."
        lines={client.postLogoutRedirectUris}
        failed={failed}
      />
      <LogoutUrlField logoutUrl={client.logoutUrl} failed={failed} />
      <ChangeTick
        name="allowsDeviceGrant"
        label="Allow sign-in on devices without a browser"
        value={client.allowsDeviceGrant}
        failed={failed}
      />
      {isPublic ? null : (
        <Select
          name="requiresPkce"
          label="PKCE"
          hint="PKCE keeps a stolen code useless. Do without it only if the app’s OpenID Connect library has no PKCE, such as passport-openidconnect. Public clients always use it."
          defaultValue={failed?.typed.requiresPkce ?? (client.requiresPkce ? "yes" : "no")}
          error={failed?.fields.requiresPkce?.[0]}
        >
          <option value="yes">Required</option>
          <option value="no">Not required: a confidential client without PKCE</option>
        </Select>
      )}
      <ChangeTick
        name="claimsInIdToken"
        label="Put name, email and groups into the ID token, for apps that don’t call userinfo, such as Auth.js"
        value={client.claimsInIdToken}
        failed={failed}
      />
      <ChangeField
        name="groupsWorkspaceId"
        label="Workspace for groups"
        hint="Optional. The ID of a workspace: the person’s role there becomes the claim “groups”. Needs the scope “Read workspaces”."
        spellCheck={false}
        value={client.groupsWorkspaceId}
        failed={failed}
      />
      <ScopeBoxes offered={clientScopes} scopes={client.scopes} failed={failed} />
    </>
  );
}

function DisplayNameField({ displayName, failed }: FailedChangeProps & { displayName: string }) {
  return (
    <ChangeField name="displayName" label="Display name" maxLength={80} required value={displayName} failed={failed} />
  );
}

function LogoutUrlField({ logoutUrl, failed }: FailedChangeProps & { logoutUrl: string | null }) {
  return (
    <ChangeField
      name="logoutUrl"
      label="Logout URL"
      hint="Optional. We post a logout token here when someone’s session in the app ends."
      spellCheck={false}
      value={logoutUrl}
      failed={failed}
    />
  );
}

function ScopeBoxes({
  offered,
  scopes,
  failed,
}: FailedChangeProps & {
  offered: readonly Pick<(typeof appScopes)[number], "field" | "scope" | "label">[];
  scopes: readonly string[];
}) {
  return (
    <fieldset className="space-y-2">
      <legend className="mb-1.5 font-medium">Scopes</legend>
      {offered.map(({ field, scope, label }) => (
        <ChangeTick key={field} name={field} label={label} value={scopes.includes(scope)} failed={failed} />
      ))}
    </fieldset>
  );
}

/** Renders a field for several addresses, one per line. */
function Lines({
  name,
  lines,
  failed,
  ...texts
}: FailedChangeProps & { name: string; label: string; hint: string; lines: readonly string[] }) {
  return (
    <TextArea
      {...texts}
      name={name}
      mono
      spellCheck={false}
      autoCapitalize="none"
      defaultValue={failed?.typed[name] ?? lines.join("\n")}
      error={failed?.fields[name]?.[0]}
    />
  );
}

/** Renders the field for the name that identifies an app or client. */
export function NameField({ label, failed }: FailedChangeProps & { label: string }) {
  return (
    <ChangeField
      name="name"
      label={label}
      hint="2 to 40 characters: a–z, 0–9 and -. It can’t be changed later."
      autoCapitalize="none"
      spellCheck={false}
      required
      failed={failed}
    />
  );
}

/** Renders the field for how long the current secret works after a rotation. */
export function OverlapField({ failed }: FailedChangeProps) {
  return (
    <Select
      name="overlapSeconds"
      label="Current secret"
      defaultValue={failed?.typed.overlapSeconds ?? "3600"}
      error={failed?.fields.overlapSeconds?.[0]}
    >
      {Object.entries(overlapLabels).map(([seconds, label]) => (
        <option key={seconds} value={seconds}>
          {label}
        </option>
      ))}
    </Select>
  );
}
