import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;

/**
 * Builds and drops many binary trees while a large one lives: work for a garbage collector.
 *
 * <p>The program stays as it is; the options of the virtual machine are the parameters.
 */
//ZEN$ PARAM collector = { Serial, Parallel, G1 }
//ZEN$ PARAM heap = { 32:256:*2 } UNIT "MB"
//ZEN$ PARAM depth = { 12, 14 }
//ZEN$ CONSTRAINT VALUE collector == "Serial" or heap >= 64
//ZEN$ BUILD "javac Trees.java"
//ZEN$ RUN "java -XX:+Use{collector}GC -Xms{heap}m -Xmx{heap}m Trees {depth}" MEMORY 1GB
//ZEN$ METRIC pauses FROM stdout REGEX "(\d+) ms in \d+ collections" UNIT "ms"
//ZEN$ METRIC collections FROM stdout REGEX "(\d+) collections"
//ZEN$ METRIC elapsed FROM stdout REGEX "(\S+) ms for" UNIT "ms"
//ZEN$ OBJECTIVE MINIMIZE elapsed, MINIMIZE pauses
public class Trees {
    private record Node(Node left, Node right) {
        static Node tree(int depth) {
            return depth == 0 ? new Node(null, null) : new Node(tree(depth - 1), tree(depth - 1));
        }

        int size() {
            return left == null ? 1 : 1 + left.size() + right.size();
        }
    }

    public static void main(String[] arguments) {
        int depth = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 14;
        long start = System.nanoTime();

        Node lasting = Node.tree(depth);
        long nodes = 0;
        for (int small = 4; small <= depth; small += 2) {
            int trees = 1 << (depth - small + 4);
            for (int i = 0; i < trees; i++) {
                nodes += Node.tree(small).size();
            }
        }

        double elapsed = (System.nanoTime() - start) / 1e6;
        long count = 0;
        long milliseconds = 0;
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            count += bean.getCollectionCount();
            milliseconds += bean.getCollectionTime();
        }
        System.out.printf("%.1f ms for %d nodes, %d of them lasting%n", elapsed, nodes, lasting.size());
        System.out.printf("%d ms in %d collections%n", milliseconds, count);
    }
}
