import { createSatellite } from "@gatehousehq/satellite/react-router";

export const satellite = createSatellite();
