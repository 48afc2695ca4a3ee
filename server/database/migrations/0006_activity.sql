DROP INDEX "deliveries_user";--> statement-breakpoint
ALTER TABLE "channels" ADD COLUMN "name" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "rule_id" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "deal_name" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "from_label" text;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "to_label" text;--> statement-breakpoint
CREATE INDEX "deliveries_activity" ON "deliveries" USING btree ("user_id","state","occurred_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_counted" ON "deliveries" USING btree ("user_id","rule_id","state","occurred_at") WHERE state in ('sent', 'dead');