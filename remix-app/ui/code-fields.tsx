import { CodeField, type FormField } from "./field.tsx";

export interface CodeFieldsProps {
  /** What the code can be of; with one alone there is nothing to choose. */
  authenticators: readonly { id: string; name: string }[];
  /** The one that is chosen at first. */
  chosen: string | undefined;
  code: FormField;
  factorName: string;
  /** True where the field is the first thing to do on the page. */
  autoFocus: boolean;
}

/** Which authenticator, where there are several, and the code that it shows. */
export function CodeFields({ authenticators, chosen, code, factorName, autoFocus }: CodeFieldsProps) {
  const [only, ...others] = authenticators;
  return (
    <>
      {others.length === 0 ? (
        <input type="hidden" name={factorName} value={only?.id ?? ""} />
      ) : (
        <fieldset className="space-y-1.5">
          <legend className="font-medium">Which app shows the code?</legend>
          {authenticators.map(({ id, name }) => (
            <label
              key={id}
              className="flex min-h-10 cursor-pointer items-center gap-3 rounded-card border border-line bg-surface px-3 py-2 has-checked:border-accent has-checked:bg-accent-soft"
            >
              <input
                type="radio"
                name={factorName}
                value={id}
                defaultChecked={id === (chosen ?? only?.id)}
                className="size-4 shrink-0 accent-accent"
              />
              <span className="min-w-0">{name}</span>
            </label>
          ))}
        </fieldset>
      )}
      <CodeField field={code} autoFocus={autoFocus} />
    </>
  );
}
