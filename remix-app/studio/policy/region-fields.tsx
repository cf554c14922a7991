import { nameRegion, regions } from "#shared/regions.ts";
import { CheckBox } from "../../ui/field.tsx";

/** The region choice as typed. The mode is null if the form has no choice. */
export interface RegionChoice {
  mode: "all" | "selected" | null;
  selected: readonly string[];
}

const labels = { all: "Any region, including providers that state none", selected: "Only selected regions" } as const;

const fieldPrefix = "region_";

/** Reads the region choice of a form. */
export function readRegionChoice(form: FormData): RegionChoice {
  const mode = form.get("regions");
  return {
    mode: mode === "all" || mode === "selected" ? mode : null,
    selected: [...form.keys()].flatMap((name) =>
      name.startsWith(fieldPrefix) ? [name.slice(fieldPrefix.length)] : [],
    ),
  };
}

/** Renders the choice of allowed regions. Without scripts, too, the regions are shown only if they apply. */
export function RegionFields({
  choice: { mode, selected },
  error,
}: {
  choice: RegionChoice;
  error: string | undefined;
}) {
  return (
    <fieldset
      id="regions"
      className="group/regions min-w-0 space-y-4"
      aria-describedby={error ? "regions-error" : undefined}
    >
      <legend className="mb-2 font-medium">Allowed regions</legend>
      {error ? (
        <p id="regions-error" className="text-bad text-small">
          {error}
        </p>
      ) : null}
      <div className="space-y-2">
        {(["all", "selected"] as const).map((each) => (
          <label key={each} htmlFor={`regions-${each}`} className="flex min-h-6 cursor-pointer items-start gap-2">
            <input
              id={`regions-${each}`}
              type="radio"
              name="regions"
              value={each}
              defaultChecked={mode === each}
              className="mt-0.75 size-4 shrink-0 cursor-pointer accent-accent"
            />
            {labels[each]}
          </label>
        ))}
      </div>
      <div className="grid gap-2 group-has-[#regions-all:checked]/regions:hidden sm:grid-cols-2">
        {[...new Set([...regions, ...selected])].map((region) => (
          <CheckBox
            key={region}
            name={`${fieldPrefix}${region}`}
            label={nameRegion(region)}
            defaultChecked={selected.includes(region)}
          />
        ))}
      </div>
    </fieldset>
  );
}
