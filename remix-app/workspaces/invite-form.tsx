import { Button } from "../ui/button.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Field } from "../ui/field.tsx";
import { PostForm } from "../ui/post-form.tsx";
import { Select } from "../ui/select.tsx";
import { roleLabel } from "./roles.ts";

/** Asks someone in by email, as one of the roles that the inviter may give. */
export function InviteForm({
  roles,
  email,
  roleId,
  failed,
  aboutEmail,
  requestId,
  action,
}: {
  roles: { id: string; name: string }[];
  email: string;
  /** The role that was chosen for the last invitation, where it was not sent. */
  roleId: string;
  /** Why the last invitation was not sent. */
  failed: string | null;
  /** Whether that is the email's fault. */
  aboutEmail: boolean;
  /** Of a failure of ours, to quote. */
  requestId: string | null;
  action: string;
}) {
  // The narrowest role comes last, and is the one to begin with.
  const chosen = roles.find(({ id }) => id === roleId) ?? roles.at(-1);
  const emailFault = aboutEmail ? failed : null;
  return (
    <PostForm action={action} noValidate className="flex flex-wrap items-end gap-3">
      <div className="w-full empty:hidden">
        <ErrorSummary
          id="invite-error"
          form={failed && !emailFault ? [failed] : undefined}
          fields={emailFault ? [{ fieldId: "invite-email", message: emailFault }] : []}
          requestId={requestId}
        />
      </div>
      <input type="hidden" name="intent" value="invite" />
      <div className="min-w-0 flex-1 basis-56">
        <Field
          id="invite-email"
          name="email"
          label="Email"
          type="email"
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          required
          defaultValue={email}
          errorId="invite-email-error"
          errors={emailFault ? [emailFault] : undefined}
        />
      </div>
      <Select id="invite-role" name="roleId" label="Role" defaultValue={chosen?.id} className="basis-36">
        {roles.map(({ id, name }) => (
          <option key={id} value={id}>
            {roleLabel(name)}
          </option>
        ))}
      </Select>
      <Button>Send invitation</Button>
    </PostForm>
  );
}
