import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { AccountForm } from "./account-form.tsx";
import { Button } from "./button.tsx";

export interface OtherWay {
  to: string;
  label: string;
  hint: string;
}

/** Shows the alternatives to a second factor: other methods, help for people without any, and signing out. */
export function OtherWays({ ways, help }: { ways: readonly OtherWay[]; help: ReactNode }) {
  return (
    <div className="space-y-4 border-line border-t pt-6">
      <details className="group">
        <summary className="flex min-h-10 cursor-pointer items-center gap-1.5 rounded-button font-medium text-accent">
          <ChevronRight aria-hidden="true" className="size-4 group-open:rotate-90" />
          Try another way
        </summary>
        <div className="space-y-3 pt-2">
          <ul className="space-y-2">
            {ways.map(({ to, label, hint }) => (
              <li key={to}>
                <a
                  href={to}
                  className="flex items-center gap-3 rounded-card border border-line bg-surface px-3 py-2.5 hover:bg-sunken"
                >
                  <span className="min-w-0 flex-1">
                    <span className="block font-medium">{label}</span>
                    <span className="block text-muted">{hint}</span>
                  </span>
                  <ChevronRight aria-hidden="true" className="size-4 shrink-0 text-muted" />
                </a>
              </li>
            ))}
          </ul>
          <p className="text-muted">{help}</p>
        </div>
      </details>
      <SignOutForm />
    </div>
  );
}

/** Renders a button that signs out only the active account, for people who cannot or do not want to continue. */
export function SignOutForm({ quiet = false }: { quiet?: boolean }) {
  return (
    <AccountForm action="/accounts">
      <input type="hidden" name="intent" value="sign_out" />
      <Button variant={quiet ? "quiet" : "secondary"} className="w-full">
        Sign out
      </Button>
    </AccountForm>
  );
}
