import { openCommandLinePhone } from "../../test/command-line-phone.ts";
import { NoAnswer } from "../journal.ts";
import type { Random } from "../random.ts";
import { serversOf } from "../world.ts";
import { type Actor, pause, type Stage } from "./actor.ts";
import type { Ask } from "./ai-caller.ts";
import { createAiCaller } from "./ai-caller.ts";
import { type Commuter, createCommuter } from "./commuter.ts";
import { createHousehold, type Household } from "./household.ts";
import { createImporter, type Importer } from "./importer.ts";
import { createPhoneUsers } from "./phone-user.ts";
import { createReader } from "./reader.ts";
import { createVisitor, type Visitor } from "./visitor.ts";

/** The actors of the running traffic, and the recorded requests to models. */
export interface Traffic {
  asks: readonly Ask[];
  households: readonly Household[];
  visitors: readonly Visitor[];
  commuters: readonly Commuter[];
  importer: Importer;
  /** Resolves once every actor has finished what it was doing. */
  done: Promise<void>;
}

/** The number of each kind of actor. Together they make traffic for two cores, about 20 calls a second. */
export const crowd = { browsers: 5, people: 3, visitors: 8, phones: 8, payers: 5, partners: 2 } as const;
/** How many browsers alternate between two web servers. Only runs with `--scale` start two web servers. */
export const commuterCount = 4;

/** Starts all actors. They stop when `ended` aborts. */
export function startTraffic({ world, journal, random, ...rest }: Stage & { random: Random }): Traffic {
  const stage: Stage = { world, journal, ...rest };
  const asks: Ask[] = [];
  const own = (name: string) => ({ name, random: random.fork(name) });
  const households = world.households.map((people, n) =>
    createHousehold(stage, { ...own(`browser ${n + 1}`), people }),
  );
  const visitors = world.visitors.map((person, n) => createVisitor(stage, { ...own(`visitor ${n + 1}`), person }));
  const servers = () => serversOf(world.stack, "web");
  const commuters = world.commuters.map((people, n) =>
    createCommuter(stage, { ...own(`commuter ${n + 1}`), people, servers }),
  );
  const importer = createImporter(stage, own("importer"));
  const phones = createPhoneUsers(stage, {
    ...own("phones"),
    people: world.phoneOwners,
    openPhone: openCommandLinePhone,
  });
  const actors: Actor[] = [
    ...households,
    ...visitors,
    ...commuters,
    importer,
    phones,
    ...[world.payer, world.partner].map((tenant) => createReader(stage, { ...own(`owner of ${tenant.name}`), tenant })),
    ...Array.from({ length: crowd.payers }, (_, n) =>
      createAiCaller(stage, { ...own(`payer ${n + 1}`), tenant: world.payer, asks }),
    ),
    ...Array.from({ length: crowd.partners }, (_, n) =>
      createAiCaller(stage, { ...own(`partner ${n + 1}`), tenant: world.partner, asks }),
    ),
  ];
  const done = Promise.all(actors.map((actor) => keepActing(actor, stage))).then(() => phones.close());
  return { asks, households, visitors, commuters, importer, done };
}

async function keepActing(actor: Actor, stage: Stage): Promise<void> {
  const { name, random, pauseMs } = actor;
  while (!stage.ended.aborted) {
    await actor.act().catch((error: unknown) => {
      if (error instanceof NoAnswer) return;
      stage.journal.find(name, error instanceof Error ? (error.stack ?? error.message) : String(error));
    });
    await pause(random.between(...pauseMs), stage);
  }
}
