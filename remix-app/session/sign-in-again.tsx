import type { ReactNode } from "react";
import type { BotChallengeSettings } from "../abuse/bot-challenge.ts";
import { BotChallenge } from "../abuse/bot-challenge-field.tsx";
import { addReturnUrl } from "../http/redirect-target.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { type FormField, PasswordField } from "../ui/field.tsx";
import { ProviderButtons, type ProviderButtonsProps, SignInMethods } from "../ui/provider-buttons.tsx";

export interface SignInAgainProps {
  password: boolean;
  offered: Pick<ProviderButtonsProps, "providers" | "lastUsed">;
  passkeyButton: ReactNode;
  formId: string;
  email: string;
  field: FormField;
  challenge: BotChallengeSettings | null;
  returnUrl: string;
}

/** Renders the forms with which a signed-in person signs in again: the account's own methods and an emailed code. */
export function SignInAgain(props: SignInAgainProps) {
  const { password, offered, passkeyButton, formId, email, field, challenge, returnUrl } = props;
  return (
    <>
      {password || passkeyButton ? (
        <SignInMethods {...offered} returnUrl={returnUrl} intent="prove">
          {password ? (
            <AccountForm id={formId} noValidate className="space-y-5">
              {/* Password managers look up the password under this name. */}
              <input type="text" autoComplete="username" value={email} readOnly hidden />
              <PasswordField field={field} label="Password" autoComplete="current-password" />
              <BotChallenge challenge={challenge} />
              <Button className="w-full">Confirm</Button>
            </AccountForm>
          ) : (
            <BotChallenge challenge={challenge} />
          )}
          {passkeyButton}
        </SignInMethods>
      ) : (
        <ProviderButtons {...offered} returnUrl={returnUrl} intent="prove" />
      )}
      {email ? (
        <ButtonLink href={addReturnUrl("/step-up/code", returnUrl)} className="w-full">
          Email me a code
        </ButtonLink>
      ) : null}
    </>
  );
}
