import { appScopes } from "../satellites/app-rights.ts";
import { CheckBox } from "../ui/field.tsx";
import { DisplayNameField, Lines, LogoutUrlField, ScopeBoxes } from "./app-fields.tsx";
import type { FailedChange } from "./change-answer.ts";
import type { RegisteredClient } from "./openid-clients.ts";

type ClientFields = Pick<
  RegisteredClient,
  "displayName" | "redirectUris" | "postLogoutRedirectUris" | "logoutUrl" | "allowsDeviceGrant" | "scopes"
>;

/** The scopes that a client may be registered for: none of the gateway's. */
const clientScopes = appScopes.filter(({ right }) => right !== null);

/** The fields that registering and editing an OpenID client have in common. */
export function OpenidClientFields({ client, failed }: { client: ClientFields; failed: FailedChange | undefined }) {
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
      <CheckBox
        name="allowsDeviceGrant"
        label="Allow sign-in on devices without a browser"
        defaultChecked={failed ? "allowsDeviceGrant" in failed.typed : client.allowsDeviceGrant}
      />
      <ScopeBoxes offered={clientScopes} scopes={client.scopes} failed={failed} />
    </>
  );
}
