CREATE INDEX "deal_events_same" ON "deal_events" USING btree ("account_id","deal_id","found_by","occurred_at");--> statement-breakpoint
-- Unused since 0.1.0: deal_events_same begins with the same columns, so former processes use that.
DROP INDEX "deal_events_deal";--> statement-breakpoint
-- Unused since 0.1.0, for the same reason.
DROP INDEX "deal_events_searched";
