import { Button } from "../ui/button.tsx";
import { Field, Select, TextArea } from "../ui/field.tsx";
import type { TryView } from "./describe.ts";

/** The visitor whose session sends the requests. */
export interface TryVisitor {
  email: string;
  workspaces: readonly { id: string; name: string }[];
}

export interface TryCallProps {
  operationId: string;
  view: TryView;
  /** Null for a visitor who isn’t signed in. */
  visitor: TryVisitor | null;
  signInPath: string;
}

/**
 * Renders the form that sends a call with the visitor's own session, using the page's script. The session itself is
 * never shown.
 */
export function TryCall({ operationId, view, visitor, signInPath }: TryCallProps) {
  const { method, path, fields, body } = view;
  return (
    <details className="rounded-card border border-line">
      <summary className="min-h-9 cursor-pointer px-3 py-1.5 font-medium text-accent hover:text-accent-strong">
        Try it
      </summary>
      <div className="space-y-4 border-line border-t p-3">
        {visitor === null ? (
          <p>
            <a className="link" href={signInPath}>
              Sign in
            </a>{" "}
            to send this request from your account.
          </p>
        ) : (
          <>
            <noscript>
              <p>Sending requests from this page needs JavaScript. Use the curl command instead.</p>
            </noscript>
            <form hidden data-try={path} data-try-id={operationId} data-try-method={method} className="space-y-4">
              <p className="text-muted">
                Sent as <strong className="font-semibold text-ink">{visitor.email}</strong> with your current session.
              </p>
              {fields.map(({ name, place, required, hint, choices }) => {
                const common = { id: `${operationId}-try-${name}`, name: `${place}:${name}`, label: name };
                const options = name === "workspaceId" ? visitor.workspaces : null;
                if (options && options.length > 0) {
                  return (
                    <Select key={name} {...common}>
                      {options.map((workspace) => (
                        <option key={workspace.id} value={workspace.id}>
                          {workspace.name}
                        </option>
                      ))}
                    </Select>
                  );
                }
                if (choices.length > 0) {
                  return (
                    <Select key={name} {...common}>
                      {required ? null : <option value="">Not set</option>}
                      {choices.map((choice) => (
                        <option key={choice}>{choice}</option>
                      ))}
                    </Select>
                  );
                }
                return <Field key={name} {...common} hint={hint || undefined} required={required} autoComplete="off" />;
              })}
              {body === null ? null : (
                <>
                  <TextArea
                    name={`body:${operationId}`}
                    label="Body"
                    rows={8}
                    required
                    spellCheck={false}
                    defaultValue={body}
                    mono
                  />
                  <label className="flex items-start gap-2.5">
                    <input type="checkbox" required className="mt-0.5 size-4 shrink-0 accent-accent" />
                    <span>
                      Send a real request to the model. It costs money and counts toward this workspace’s usage.
                    </span>
                  </label>
                </>
              )}
              <Button>Send request</Button>
              <div hidden data-answer role="status" className="space-y-2">
                <p className="break-all font-mono text-small" />
                <pre
                  // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be within the keyboard's reach
                  tabIndex={0}
                  className="max-h-96 overflow-auto rounded-card border border-line bg-sunken p-3 font-mono text-small leading-5 -outline-offset-2"
                />
              </div>
            </form>
          </>
        )}
      </div>
    </details>
  );
}
