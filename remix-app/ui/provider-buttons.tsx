import { buttonClass } from "./button.tsx";
import { ProviderIcon } from "./provider-icon.tsx";

export interface ProviderButtonsProps {
  /** In the order of the buttons. */
  providers: readonly { name: string; label: string }[];
  /** The one that this browser signed in with last, which has a row of its own. */
  lastUsed: string | null;
  /** Where to go in the end; empty for the start page. */
  returnUrl: string;
  /**
   * For who is signed in already: whether they mean another account than that (`add`), or show that it is still them
   * (`prove`).
   */
  intent?: "add" | "prove" | undefined;
}

/** A button for each provider. The form's answer is the provider's page. */
export function ProviderButtons({ providers, lastUsed, returnUrl, intent }: ProviderButtonsProps) {
  return (
    <form method="post" data-once className="grid grid-cols-2 gap-2">
      <input type="hidden" name="returnUrl" value={returnUrl} />
      {intent ? <input type="hidden" name="intent" value={intent} /> : null}
      {providers.map(({ name, label }, index) => {
        const isLastUsed = name === lastUsed;
        const fillsRow = isLastUsed || (index === providers.length - 1 && (index - (lastUsed ? 1 : 0)) % 2 === 0);
        return (
          <button
            key={name}
            type="submit"
            formAction={`/auth/oauth/${name}`}
            className={`${buttonClass("secondary")} ${fillsRow ? "col-span-2" : ""}`}
          >
            <ProviderIcon provider={name} />
            <span>
              <span className="sr-only">Continue with </span>
              {label}
            </span>
            {isLastUsed ? <LastUsed /> : null}
          </button>
        );
      })}
    </form>
  );
}

/** Marks the way that this browser signed in by the last time. */
function LastUsed() {
  return <span className="rounded-full bg-accent-soft px-2 py-0.5 font-medium text-accent text-small">Last used</span>;
}
